"""Batches without their padding."""

import torch

from regard.attention import Lengths, Packed
from regard.layers.rows import Rows

LENGTHS = torch.tensor([3, 0, 5])


def test_there_and_back():
    x = torch.randn(3, 5, 2, requires_grad=True)
    rows = Rows(LENGTHS, 5, packed=True)
    taken = rows.take(x)
    assert torch.equal(taken, torch.cat([x[0, :3], x[2]]))
    back = rows.back(taken)
    inside = (torch.arange(5) < LENGTHS[:, None])[..., None]
    assert torch.equal(back, x * inside)
    grad = torch.randn_like(back)
    (got,) = torch.autograd.grad(back, x, grad)
    assert torch.equal(got, grad * inside)
    packed = rows(taken)
    assert isinstance(packed, Packed)
    assert packed.lengths == (3, 0, 5)
    assert rows.mask is None


def test_second_derivatives():
    x = torch.randn(3, 5, 2, dtype=torch.float64, requires_grad=True)
    rows = Rows(LENGTHS, 5, packed=True)
    assert torch.autograd.gradgradcheck(lambda x: rows.back(rows.take(x) ** 2), x)


def test_with_padding_all_stays_as_it_is():
    x = torch.randn(3, 5, 2)
    rows = Rows(LENGTHS, 5)
    assert rows.take(x) is x
    assert rows.back(x) is x
    assert rows(x) is x
    assert isinstance(rows.mask, Lengths)
    assert Rows(torch.tensor([5, 5]), 5).mask is None
