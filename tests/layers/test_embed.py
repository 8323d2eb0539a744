"""Silent ids stay silent, whatever training does."""

import torch

from regard.layers.embed import Embed


def test_it_looks_up_and_scales():
    table = Embed(6, 4, scale=3.0)
    ids = torch.tensor([[5, 2], [2, 4]])
    assert torch.equal(table(ids), 3.0 * table.weight[ids])


def test_padding_is_zero_and_gets_no_gradient():
    table = Embed(6, 4)
    assert table(torch.tensor([0])).eq(0).all()
    table(torch.tensor([0, 0, 3])).sum().backward()
    assert table.weight.grad[0].eq(0).all()
    assert table.weight.grad[3].eq(1).all()


def test_several_ids_may_be_silent_even_when_their_rows_are_not():
    table = Embed(6, 4, zeros=(0, 1))
    with torch.no_grad():
        table.weight[1] = 7.0
    out = table(torch.tensor([1, 2]))
    assert out[0].eq(0).all()
    out.sum().backward()
    assert table.weight.grad[1].eq(0).all()
    table.silence()
    assert table.weight[1].eq(0).all()
