"""Tanh of the recurrences."""

import torch

from regard.layers._gated import tanh


def test_tanh_by_the_sigmoid():
    x = torch.linspace(-30, 30, 1001)
    right = torch.tanh(x.double())
    torch.testing.assert_close(tanh(x).double(), right, rtol=0, atol=2e-7)
    torch.testing.assert_close(x, torch.linspace(-30, 30, 1001))  # not in place unless said
    strided = torch.stack([x, x], 1)[:, 0]
    assert tanh(strided, out=strided) is strided
    torch.testing.assert_close(strided.double(), right, rtol=0, atol=2e-7)


def test_it_does_not_depend_on_its_neighbors():
    x = torch.randn(64, dtype=torch.float64)
    for other in (0.0, 1e-9, 50.0):
        beside = torch.full((64,), other, dtype=torch.float64)
        both = tanh(torch.stack([x, beside], 1).flatten())[::2]
        assert torch.equal(both, tanh(x))
