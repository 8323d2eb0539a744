"""Dropout by words of bits."""

import numpy as np
import pytest
import torch

from regard import native
from regard.layers.dropout import Dropout, dropout, dropout_add, dropout_relu
from regard.native.dropout import FEW, _dropout


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


@pytest.mark.skipif(native.library() is None, reason="no compiled library")
@pytest.mark.parametrize("seed", [3, (5 << 32) + 9])
def test_what_is_kept_is_the_hash_that_the_kernel_names(seed):
    """In NumPy: block b of 32 numbers, hash g decides on b * 32 + g and on b * 32 + 16 + g."""
    count, threshold = 3 * FEW + 31, 20_000
    x = np.arange((count + 31) // 32 * 16, dtype=np.uint32)
    with np.errstate(over="ignore"):
        x = x * np.uint32(0x9E3779B1) + np.uint32(seed & 0xFFFFFFFF)
        x ^= x >> np.uint32(16)
        x *= np.uint32(0x7FEB352D)
        x ^= (x >> np.uint32(15)) ^ np.uint32(seed >> 32)
        x *= np.uint32(0x846CA68B)
        x ^= x >> np.uint32(16)
    halves = np.stack([x & np.uint32(0xFFFF), x >> np.uint32(16)]).reshape(2, -1, 16)
    kept = (halves.transpose(1, 0, 2).reshape(-1) >= threshold)[:count]
    found = _dropout(torch.ones(count), None, torch.tensor([seed]), threshold)
    assert np.array_equal(found.numpy() != 0, kept)


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [FEW, FEW + 1, 3 * FEW + 31])
def test_what_is_dropped_is_the_same_at_every_level_and_with_any_number_of_threads(dtype, count):
    x = torch.randn(count).to(dtype)
    found = []
    for level in ("portable", "AVX2", "AVX-512"):
        for threads in (1, 2):
            before = torch.get_num_threads()
            torch.set_num_threads(threads)
            torch.manual_seed(7)
            with native.at_level(level):
                found.append(dropout(x, 0.3))
            torch.set_num_threads(before)
    assert all(torch.equal(found[0], other) for other in found[1:])
    kept = found[0] != 0
    assert abs(kept.double().mean().item() - 0.7) < 0.02
    torch.testing.assert_close(found[0][kept], (x / 0.7)[kept], rtol=1e-2, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(5, 7), (129, 257)])
def test_dropping_onto_a_residual_is_both_steps_in_one(dtype, shape):
    # made in float32: in bfloat16 some PyTorch gives zeros, which look dropped
    x, onto = (torch.randn(shape).to(dtype).requires_grad_() for _ in range(2))
    torch.manual_seed(1)
    one = dropout_add(x, onto, 0.4)
    torch.manual_seed(1)
    left = dropout(x.detach(), 0.4)
    rounding = 2e-2 if dtype is torch.bfloat16 else 1e-6
    torch.testing.assert_close(one, onto.detach() + left, rtol=rounding, atol=rounding)
    upstream = torch.randn(shape, dtype=dtype)
    one.backward(upstream)
    assert torch.equal(onto.grad, upstream)
    torch.testing.assert_close(x.grad, upstream * (left != 0) / 0.6, rtol=1e-2, atol=0)


def test_it_takes_strided_and_broadcast_numbers():
    x, onto = torch.randn(300, 200).T, torch.randn(1, 300).expand(200, 300)
    torch.manual_seed(2)
    one = dropout_add(x, onto, 0.5)
    torch.manual_seed(2)
    torch.testing.assert_close(one, onto + dropout(x.contiguous(), 0.5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [100, FEW, FEW + 1, 3 * FEW + 31])
@pytest.mark.parametrize("level", ["portable", "AVX2", "AVX-512"])
def test_a_rectifier_with_dropout_is_both_one_after_the_other(dtype, count, level):
    torch.manual_seed(0)
    x = torch.randn(count).to(dtype).requires_grad_()
    with torch.no_grad():
        x[7] = float("nan")
    with native.at_level(level):
        torch.manual_seed(1)
        one = dropout_relu(x, 0.3)
        torch.manual_seed(1)
        two = dropout(torch.relu(x), 0.3)
        torch.testing.assert_close(one, two, rtol=0, atol=0, equal_nan=True)
        grad = torch.randn_like(one)
        one, two = (torch.autograd.grad(y, x, grad)[0] for y in (one, two))
    keep = torch.arange(count) != 7
    assert torch.equal(one[keep], two[keep])
    assert torch.equal(dropout_relu(x, 0.3, training=False)[keep], torch.relu(x)[keep])
