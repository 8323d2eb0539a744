"""Weights dropped by tiles: the same ones forward and backward, as many as asked, by the seed."""

import pytest
import torch

from regard import watch
from regard.attention import (
    ALiBi,
    Attention,
    Lengths,
    RelativeKeys,
    RelativeValues,
    WeightedSum,
    Window,
    explain,
    kernels,
)
from regard.attention._kernels import tiles

T, D, RATE = 23, 5, 0.3
LAYERS = {
    "bias": lambda: Attention(position=ALiBi(2), read=WeightedSum(dropout=RATE)),
    "tables": lambda: Attention(RelativeKeys(D, 3), read=RelativeValues(D, 3, dropout=RATE)),
    "window": lambda: Attention(mask=Window(4, 2), read=WeightedSum(dropout=RATE)),
}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "PAIRS", 60)
    monkeypatch.setattr(tiles, "QUERIES", 8)


def run(layer, query, key, value, seed=3, mask=None):
    torch.manual_seed(seed)
    with kernels("window" if layer.mask is not None else "relative"):
        return layer(query, key, value, mask=mask).context


def factors_of(layer, query, key, mask=None):
    """What the weights were multiplied with: read off values that are the identity."""
    bare = Attention(layer.score, position=layer.position, mask=layer.mask)
    with kernels("reference"):
        weights = bare(query, key, mask=mask, need_weights=True).weights
    plain = Attention(
        layer.score, position=layer.position, mask=layer.mask, read=WeightedSum(dropout=RATE)
    )
    dropped = run(plain, query, key, torch.eye(T, dtype=query.dtype).expand(2, 2, T, T), mask=mask)
    return torch.where(weights > 0, dropped / weights.clamp_min(1e-30), 0.0).round(decimals=3)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("mask", [None, Lengths(torch.tensor([[T], [9]]))])
def test_context_and_gradients_are_those_of_the_weights_that_were_kept(kind, mask):
    torch.manual_seed(1)
    layer = LAYERS[kind]().double().train()
    inputs = [torch.randn(2, 2, T, D, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    query, key, value = inputs
    with torch.no_grad():
        factors = factors_of(layer, query, key, mask)
    kept = 1 / (1 - round(RATE * 65536) / 65536)
    assert set(factors.unique().tolist()) <= {0.0, round(kept, 3)}
    factors = (factors > 0) * kept
    leaves = [*inputs, *layer.parameters()]
    got = run(layer, query, key, value, mask=mask)

    silent = Attention(layer.score, position=layer.position, mask=layer.mask)
    with kernels("reference"):
        weights = silent(query, key, mask=mask, need_weights=True).weights
    expected = weights * factors @ value
    if isinstance(layer.read, RelativeValues):
        offsets = (torch.arange(T) - torch.arange(T)[:, None]).clamp(-3, 3) + 3
        table = layer.read.table.view(7, D)[offsets]  # (Q, K, D)
        expected = expected + torch.einsum("bhij,ijd->bhid", weights * factors, table)
    torch.testing.assert_close(got, expected)
    grad = torch.randn_like(got)
    found = torch.autograd.grad(got, leaves, grad)
    for a, b in zip(found, torch.autograd.grad(expected, leaves, grad), strict=True):
        torch.testing.assert_close(a, b)


def test_seeds_rates_and_watchers():
    layer = Attention(position=ALiBi(1), read=WeightedSum(dropout=RATE)).train()
    assert explain(layer)[""].kernel == "relative"
    x = torch.randn(1, 1, 200, 200)
    eye = torch.eye(200).view(1, 1, 200, 200)
    first, again, other = (run(layer, 0 * x, x, eye, seed) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert abs((first == 0).float().mean() - RATE) < 0.01
    torch.manual_seed(5)
    with watch(layer) as seen, kernels("relative"):
        watched = layer(0 * x, x, eye).context
    assert torch.equal(watched, first)
    torch.testing.assert_close(seen[""].weights.sum(-1), torch.ones(1, 1, 200))
    assert (run(layer.eval(), 0 * x, x, eye) > 0).all()
    layer.read.dropout = 1.0
    assert not run(layer.train(), x, x, eye).any()
