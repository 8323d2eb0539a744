"""Dropout by words of bits."""

import pytest
import torch

from regard.layers.dropout import Dropout, dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("p", [0.05, 0.1, 0.5, 0.9])
def test_rate_scale_and_gradient(dtype, p):
    torch.manual_seed(0)
    x = torch.ones(300, 401, dtype=dtype, requires_grad=True)
    y = dropout(x, p)
    assert y.dtype == dtype
    rate = (y == 0).double().mean().item()
    assert abs(rate - p) < 5 * (p * (1 - p) / x.numel()) ** 0.5  # five standard deviations
    kept = y[y != 0]
    torch.testing.assert_close(
        kept.double(), torch.full_like(kept, 1 / (1 - p)).double(), rtol=5e-3, atol=0
    )
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())


def test_elements_are_independent_of_their_neighbours():
    torch.manual_seed(0)
    keep = (dropout(torch.ones(1 << 20), 0.5) != 0).double()
    for lag in (1, 2, 3, 4, 8):
        correlation = ((keep[lag:] - 0.5) * (keep[:-lag] - 0.5)).mean().item() * 4
        assert abs(correlation) < 0.006


def test_a_seed_reproduces_it_and_none_is_drawn_where_nothing_is_dropped():
    x = torch.ones(5000)
    torch.manual_seed(3)
    first = dropout(x, 0.2)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.2))
    state = torch.get_rng_state()
    assert dropout(x, 0.0) is x
    assert dropout(x, 0.3, training=False) is x
    assert Dropout(0.3).eval()(x) is x
    assert torch.equal(state, torch.get_rng_state())


def test_extremes():
    assert (dropout(torch.ones(2000), 1.0) == 0).all()
    assert dropout(torch.ones(3), 0.5).shape == (3,)
