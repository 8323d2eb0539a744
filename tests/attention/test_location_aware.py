"""Chorowski et al.'s hybrid score against their equation, by loops."""

import numpy as np
import pytest
import torch

from regard.attention import (
    Attention,
    Coverage,
    Lengths,
    LocationAware,
    MultiHead,
    PreviousWeights,
    explain,
    kernels,
)
from regard.errors import RequestError


def slow(layer, queries, key, value, length):
    """e_ij = v tanh(W q_i + U k_j + V f_ij + b), f_i = F * a_{i-1}; one sentence, in float64."""
    s = layer.score
    w, u, b, v = (
        p.detach().double().numpy() for p in (s.query.weight, s.key.weight, s.key.bias, s.v)
    )
    filters = s.filters.weight.detach().double().numpy()[:, 0]  # (k, r)
    spread, half = s.features.weight.detach().double().numpy(), filters.shape[1] // 2
    keys = len(key)
    previous = np.zeros(keys)
    previous[0] = 1.0
    contexts, weights = [], []
    for q in queries:
        e = np.full(keys, -np.inf)
        for j in range(length):
            f = np.zeros(len(filters))
            for n in range(-half, half + 1):
                if 0 <= j + n < keys:
                    f += filters[:, half + n] * previous[j + n]
            e[j] = v @ np.tanh(w @ q + u @ key[j] + spread @ f + b)
        a = np.exp(e - e.max())
        previous = a / a.sum()
        weights.append(previous)
        contexts.append(previous @ value)
    return np.array(contexts), np.array(weights)


def steps(layer, query, memory):
    """One query after another."""
    state, contexts, weights = None, [], []
    for q in query.split(1, dim=-2):
        out = layer(q, memory, state=state, need_weights=True)
        state = out.state
        contexts.append(out.context)
        weights.append(out.weights)
    return torch.cat(contexts, -2), torch.cat(weights, -2)


@pytest.mark.parametrize("kernel", ["located", "streaming", "reference"])
@pytest.mark.parametrize("width", [1, 5, 31])
def test_the_equation(kernel, width):
    layer = Attention(
        score=LocationAware(6, 5, 16, filters=3, width=width), carry=PreviousWeights(first=0)
    )
    query, key, value = torch.randn(2, 4, 6), torch.randn(2, 9, 5), torch.randn(2, 9, 3)
    lengths = torch.tensor([9, 5])
    with kernels(kernel):
        contexts, weights = steps(layer, query, layer.remember(key, value, mask=lengths))
    for b in range(2):
        arrays = (x[b].double().numpy() for x in (query, key, value))
        context, weight = slow(layer, *arrays, int(lengths[b]))
        np.testing.assert_allclose(contexts[b].detach(), context, atol=2e-6)
        np.testing.assert_allclose(weights[b].detach(), weight, atol=2e-6)


def test_gradients_flow_through_the_weights_of_the_steps_before():
    torch.manual_seed(1)
    layer = Attention(score=LocationAware(4, 4, 8, filters=2, width=3), carry=PreviousWeights(0))
    query, key = torch.randn(2, 4, 4), torch.randn(2, 6, 4)
    memory_mask = torch.tensor([6, 0])  # a row with nothing to look at

    def run(dtype, kernel):
        module = layer.to(dtype)
        q, k = (t.to(dtype).clone().requires_grad_() for t in (query, key))
        with kernels(kernel):
            contexts, _ = steps(module, q, module.remember(k, mask=memory_mask))
        assert (contexts[1] == 0).all()
        return torch.autograd.grad(contexts.pow(2).sum(), [q, k, *module.parameters()])

    expected = run(torch.float64, "reference")
    found = run(torch.float32, "streaming")
    by_blocks = run(torch.float64, "streaming")
    filters = dict(zip(dict(layer.named_parameters()), expected[2:], strict=True))
    assert filters["score.filters.weight"].abs().max() > 0
    for a, b, e in zip(found, by_blocks, expected, strict=True):
        assert a.isfinite().all()
        torch.testing.assert_close(a.double(), e, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(b, e)


def test_gradcheck():
    score = LocationAware(3, 3, 4, filters=2, width=3).double()
    x = [torch.randn(*s).double().requires_grad_() for s in ((2, 2, 3), (2, 5, 3), (2, 2, 5, 1))]

    def run(query, key, features):
        return score(query, score.prepare(key), features=features)

    def stream(query, key, features):
        return score.stream(query, score.prepare(key), features=features)

    assert torch.autograd.gradcheck(run, x)
    assert torch.autograd.gradcheck(stream, x)


def test_hypotheses_are_rows_of_one_step():
    """Each query of a call has its own past: as if they were called one by one."""
    layer = Attention(score=LocationAware(4, 4, 8, filters=2, width=5), carry=PreviousWeights(0))
    query, key = torch.randn(2, 3, 4), torch.randn(2, 7, 4)
    memory = layer.remember(key)
    first = layer(query, memory)
    second = layer(query.flip(-2), memory, state=first.state).context
    for i in range(3):
        one = layer(query[:, i : i + 1], memory)
        other = layer(query.flip(-2)[:, i : i + 1], memory, state=one.state).context
        torch.testing.assert_close(second[:, i : i + 1], other)


def test_heads_and_coverage():
    inner = Attention(score=LocationAware(4, 4, 8, filters=2, width=5, heads=2), carry=Coverage())
    layer = MultiHead(8, 2, inner)
    query, key = torch.randn(3, 4, 8), torch.randn(3, 6, 8)
    memory = layer.remember(key, mask=Lengths(torch.tensor([6, 2, 4])))
    found, _ = steps(layer, query, memory)
    with kernels("reference"):
        expected, _ = steps(layer, query, memory)
    torch.testing.assert_close(found, expected)


def test_what_it_asks_for():
    assert LocationAware(4, 4, 8).feature_dim == 1
    with pytest.raises(RequestError, match="odd width"):
        LocationAware(4, 4, 8, width=4)
    with pytest.raises(RequestError, match="LocationAware looks at features of a carry"):
        Attention(score=LocationAware(4, 4, 8))
    layer = Attention(score=LocationAware(4, 4, 8), carry=PreviousWeights(0))
    assert explain(layer)[""].kernel in ("located", "streaming")
