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


def test_through_is_the_map_of_the_vectors_in_either_order():
    torch.manual_seed(1)
    table, change = Embed(6, 4, zeros=(0, 1), scale=2.0).double(), torch.nn.Linear(4, 3).double()
    for shape in ((2, 3), (5, 4)):  # not more, and more ids than the vocabulary has
        ids = torch.randint(0, 6, shape)
        gradients = []
        for way in (lambda: change(table(ids)), lambda: table.through(ids, change)):  # noqa: B023
            table.zero_grad()
            change.zero_grad()
            out = way()
            (out * torch.arange(out.numel()).view_as(out)).sum().backward()
            gradients.append([out, *(p.grad for p in (*table.parameters(), *change.parameters()))])
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other)


def test_through_drops_what_the_vectors_at_hand_have_dropped():
    table = Embed(3, 8, dropout=0.5)
    ids = torch.tensor([1, 2, 1, 2])
    vectors = table(ids)
    assert vectors.eq(0).any()
    assert torch.equal(table.through(ids, lambda x: 2 * x, vectors), 2 * vectors)
    table.eval()
    assert torch.equal(table(ids), table.weight[ids])
