"""Batches without their padding."""

import torch

from regard.attention import Lengths, Ragged
from regard.layers.layout import BatchLayout

LENGTHS = torch.tensor([3, 0, 5])


def test_there_and_back():
    x = torch.randn(3, 5, 2, requires_grad=True)
    rows = BatchLayout(LENGTHS, 5, ragged=True)
    taken = rows.unpad(x)
    assert torch.equal(taken, torch.cat([x[0, :3], x[2]]))
    back = rows.pad(taken)
    inside = (torch.arange(5) < LENGTHS[:, None])[..., None]
    assert torch.equal(back, x * inside)
    grad = torch.randn_like(back)
    (got,) = torch.autograd.grad(back, x, grad)
    assert torch.equal(got, grad * inside)
    packed = rows(taken)
    assert isinstance(packed, Ragged)
    assert packed.lengths == (3, 0, 5)
    assert rows.mask is None


def test_second_derivatives():
    x = torch.randn(3, 5, 2, dtype=torch.float64, requires_grad=True)
    rows = BatchLayout(LENGTHS, 5, ragged=True)
    assert torch.autograd.gradgradcheck(lambda x: rows.pad(rows.unpad(x) ** 2), x)


def test_with_padding_all_stays_as_it_is():
    x = torch.randn(3, 5, 2)
    rows = BatchLayout(LENGTHS, 5)
    assert rows.unpad(x) is x
    assert rows.pad(x) is x
    assert rows(x) is x
    assert isinstance(rows.mask, Lengths)
    assert BatchLayout(torch.tensor([5, 5]), 5).mask is None
