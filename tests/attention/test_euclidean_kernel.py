"""Inverse distances without their differences: exact also where pairs nearly meet."""

import pytest
import torch

from regard.attention import (
    Attention,
    Causal,
    DistanceMask,
    Identity,
    InverseEuclidean,
    Lengths,
    MultiHead,
    NegativeSquaredEuclidean,
    RelativeBias,
    Softmax,
    Window,
    attend,
    explain,
    kernels,
)
from regard.attention._kernels import tiles
from regard.attention._ops import distances
from tests.attention.test_relative import compare


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("mask", ["none", "lengths", "causal", "window"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_kernel_agrees_with_float64(small, mask, dtype, monkeypatch):
    if small:
        monkeypatch.setattr(tiles, "QUERIES", 4)
        monkeypatch.setattr(tiles, "PAIRS", 30)
        monkeypatch.setattr(distances, "TOGETHER", 2)
    key = torch.randn(2, 3, 11, 4)
    query = torch.randn(2, 3, 6, 4)
    query[:, :, 1] = key[:, :, 2]  # the same: gradient 0 of the norm
    query[:, :, 4] = key[:, :, 7] + 0.01 * torch.randn(2, 3, 4)  # nearly
    given = {
        "none": None,
        "lengths": Lengths(torch.tensor([[0], [8]])),
        "causal": Causal(),
        "window": Window(3, 2),
    }[mask]
    inputs = [x.to(dtype) for x in (query, key, torch.randn(2, 3, 11, 5))]
    tolerance = {torch.float64: 1e-10, torch.float32: 2e-5, torch.bfloat16: 3e-2}[dtype]
    for position in (None, RelativeBias(2), DistanceMask(0.1, learned=True)):
        layer = Attention(InverseEuclidean(), position=position, select=Softmax(0.3))
        compare(layer, inputs, "euclidean", tolerance, mask=given)


def test_far_from_the_origin_in_fp32():
    """All squares are about 640 000 here and all distances about 11."""
    x = torch.randn(1, 150, 64) + 100
    for score, kernel in ((InverseEuclidean(), "euclidean"), (NegativeSquaredEuclidean(), "sdpa")):
        low, exact = x.clone().requires_grad_(), x.double().requires_grad_()
        with kernels(kernel):
            got = attend(low, low, torch.sin(low), score=score).context
        with kernels("reference"):
            expected = attend(exact, exact, torch.sin(exact), score=score).context
        got.sum().backward()
        expected.sum().backward()
        assert (got - expected).abs().max() <= 2e-6 * max(1.0, expected.abs().max().item())
        assert (low.grad - exact.grad).abs().max() <= 1e-4 * exact.grad.abs().max()


def test_differences_are_not_kept():
    saved = []
    x = torch.randn(1, 2, 150, 32, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: (saved.append(t.numel()), t)[1], lambda t: t
    ):
        attend(x, x, score=InverseEuclidean()).context.sum().backward()
    assert max(saved) <= x.numel()


def test_chosen_and_explained():
    assert explain(MultiHead(8, 2, Attention(InverseEuclidean())))[""].kernel == "euclidean"
    assert explain(Attention(NegativeSquaredEuclidean()))[""].kernel == "sdpa"


@pytest.mark.parametrize(("key_dim", "value_dim"), [(8, 12), (12, 8), (8, 8)])
def test_sizes_of_keys_and_values_that_differ_take_the_fused_kernel_too(key_dim, value_dim):
    query, key = torch.randn(2, 2, 150, key_dim), torch.randn(2, 2, 150, key_dim)
    inputs = [query, key, torch.randn(2, 2, 150, value_dim)]
    compare(Attention(), inputs, "sdpa", 2e-5, mask=Lengths(torch.tensor([[0], [90]])))
    compare(Attention(), inputs, "sdpa", 2e-5, mask=Causal())


@pytest.mark.parametrize("mask", [None, Lengths(torch.tensor([[0], [8]]))])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_scores_that_are_all_wanted_come_from_products(mask, dtype, monkeypatch):
    monkeypatch.setattr(distances, "TOGETHER", 2)
    key, query = torch.randn(2, 3, 11, 4), torch.randn(2, 3, 6, 4)
    query[:, :, 1] = key[:, :, 2]  # the same: gradient 0 of the norm
    query[:, :, 4] = key[:, :, 7] + 0.01 * torch.randn(2, 3, 4)  # nearly
    inputs = [x.to(dtype) for x in (query, key, torch.randn(2, 3, 11, 5))]
    tolerance = {torch.float64: 1e-10, torch.float32: 2e-5, torch.bfloat16: 3e-2}[dtype]
    layer = Attention(InverseEuclidean(), select=Identity())
    assert explain(layer)[""].kernel == "streaming"
    compare(layer, inputs, "streaming", tolerance, mask=mask)


def test_scores_from_products_can_be_differentiated_twice():
    x, y = (torch.randn(2, n, 3, dtype=torch.float64, requires_grad=True) for n in (4, 5))
    assert torch.autograd.gradgradcheck(distances.inverse_scores, (x, y))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: (saved.append(t.numel()), t)[1], lambda t: t
    ):
        attend(x, y, score=InverseEuclidean(), need_weights=True).weights.sum().backward()
    assert max(saved) <= 2 * 4 * 5  # no differences (2, 4, 5, 3)
