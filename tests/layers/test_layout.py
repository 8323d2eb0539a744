"""Batches without their padding."""

import pytest
import torch

from regard.attention import Lengths, Ragged
from regard.layers.layout import BatchLayout, PackedLayout

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


@pytest.mark.parametrize("shape", [(4, 5), (1, 1), (3, 0), (0, 3)])
def test_sequences_are_packed_step_by_step_from_the_longest(shape):
    generator = torch.Generator().manual_seed(3)
    real = torch.rand(shape, generator=generator) > 0.4
    x = torch.randn(*shape, 2, generator=generator)
    layout = PackedLayout(real)
    lists = sorted((x[row, real[row]] for row in range(shape[0])), key=len, reverse=True)
    steps = [[items[t] for items in lists if t < len(items)] for t in range(shape[1])]
    expected = [item for step in steps for item in step]
    assert layout.sizes == [len(step) for step in steps if step]
    packed = layout.take(x)
    assert torch.equal(packed, torch.stack(expected) if expected else x.new_zeros(0, 2))
    assert torch.equal(layout.put(packed), x * real[..., None])
    assert torch.equal(layout.mirror(layout.mirror(packed)), packed)
    mirrored = layout.put(layout.mirror(packed))
    for row in range(shape[0]):
        assert torch.equal(mirrored[row, real[row]], x[row, real[row]].flip(0))
