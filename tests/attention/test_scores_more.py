"""Distances, trilinear, biaffine and uniform scores against their equations, pair by pair."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import (
    Attention,
    Biaffine,
    InverseEuclidean,
    Lengths,
    MultiHead,
    NegativeSquaredEuclidean,
    OverQueries,
    Trilinear,
    Uniform,
    explain,
    kernels,
)
from tests.attention.reference import slow_attend

B, Q, K, D = 2, 3, 5, 4


def numbers(parameter):
    return parameter.detach().double().numpy()


def equation(score):
    """The score of one query and one key, from the papers' equations."""
    if isinstance(score, Uniform):
        return lambda q, k, j: 0.0
    if isinstance(score, InverseEuclidean):
        return lambda q, k, j: 1 / (1 + np.sqrt(((q - k) ** 2).sum()))
    if isinstance(score, NegativeSquaredEuclidean):
        return lambda q, k, j: -score.scale * ((q - k) ** 2).sum()
    if isinstance(score, Trilinear):
        w = numbers(score.w).reshape(-1)
        return lambda q, k, j: w @ np.concatenate([q, k, q * k])
    u = numbers(score.weight)
    one, other = np.ones(int(score.query_bias)), np.ones(int(score.key_bias))
    return lambda q, k, j: np.append(q, one) @ u @ np.append(k, other)


def biaffine(**how):
    score = Biaffine(D, D, **how)
    torch.nn.init.normal_(score.weight)  # the terms alone start at zero
    return score


SCORES = {
    "uniform": Uniform,
    "inverse distance": InverseEuclidean,
    "squared distance": NegativeSquaredEuclidean,
    "squared distance, broad": lambda: NegativeSquaredEuclidean(0.1),
    "trilinear": lambda: Trilinear(D),
    "biaffine": biaffine,
    "biaffine, all terms": lambda: biaffine(key_bias=True),
    "biaffine, no terms": lambda: biaffine(query_bias=False),
}
DOTS = [name for name in SCORES if name != "inverse distance"]


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("kernel", [None, "reference"])
def test_score_is_its_equation(name, kernel):
    layer = Attention(SCORES[name]()).double()
    query, key, value = (torch.randn(B, n, D, dtype=torch.float64) for n in (Q, K, K))
    mask = torch.rand(B, Q, K) > 0.3
    mask[0, 1] = False
    context, weights = slow_attend(
        query.numpy(), key.numpy(), value.numpy(), equation(layer.score), mask.numpy()
    )
    with kernels(kernel or explain(layer)[""].kernel):
        got = layer(query, key, value, mask=mask)
    np.testing.assert_allclose(got.context.detach().numpy(), context, atol=1e-12)
    seen = layer(query, key, value, mask=mask, need_weights=True).weights
    np.testing.assert_allclose(seen.detach().numpy(), weights, atol=1e-12)


@pytest.mark.parametrize("name", DOTS)
def test_a_product_in_disguise_is_the_score_and_takes_the_fused_kernel(name):
    layer = Attention(SCORES[name]()).double()
    assert explain(layer)[""].kernel == "sdpa"
    query, key = torch.randn(B, Q, D).double(), torch.randn(1, K, D).double() + 3
    product = layer.score.as_dot(query, layer.score.prepare(key))
    expected = np.array(
        [[[equation(layer.score)(q, k, 0) for k in key[0].numpy()] for q in b] for b in query]
    )
    got = product.scale * product.query @ product.key.transpose(-2, -1)
    np.testing.assert_allclose(got.detach().numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(layer.scores(query, key).detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("name", SCORES)
def test_gradients(name):
    score = SCORES[name]().double()
    x = [torch.randn(*size, D).double().requires_grad_() for size in ((2, 3), (1, 4))]
    parameters = list(score.parameters())

    def scored(query, key, *_):
        return score(query, score.prepare(key)) + 0 * (query.sum() + key.sum())

    assert torch.autograd.gradcheck(scored, (*x, *parameters))


@settings(max_examples=40)
@given(
    name=st.sampled_from(sorted(SCORES)),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
    batch=st.sampled_from([(), (3,), (2, 3)]),
    shared=st.booleans(),
    strided=st.booleans(),
    queries=st.integers(1, 5),
    keys=st.integers(1, 7),
    seed=st.integers(0, 10**6),
)
def test_every_shape_agrees_with_float64(name, dtype, batch, shared, strided, queries, keys, seed):
    torch.manual_seed(seed)
    layer = Attention(SCORES[name]()).to(dtype)
    held = () if shared else batch

    def draw(*size):
        x = torch.randn(*size, D).to(dtype)
        return x.mT.contiguous().mT if strided else x

    x = [draw(*batch, queries), draw(*held, keys), draw(*held, keys)]
    mask = torch.rand(queries, keys) > 0.4
    low = [t.clone().requires_grad_() for t in x]
    got = layer(*low, mask=mask).context
    got.square().sum().backward()
    high = [t.double().requires_grad_() for t in x]
    with kernels("reference"):
        expected = layer.double()(*high, mask=mask).context
    expected.square().sum().backward()
    bound = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 0.12}[dtype]
    assert got.dtype == dtype
    assert (got[..., ~mask.any(-1), :] == 0).all()
    assert (got - expected).abs().max() <= bound
    for a, b in zip(low, high, strict=True):
        if b.grad is None or a.grad is None:
            assert name == "uniform"
            continue
        assert a.grad.isfinite().all()
        assert (a.grad - b.grad).abs().max() <= bound * max(1, b.grad.abs().max())


def test_equal_points_have_finite_gradients():
    x = torch.randn(1, 3, 4).requires_grad_()
    scores = InverseEuclidean()(x, x)
    torch.testing.assert_close(scores[0].diagonal(), torch.ones(3))
    scores.sum().backward()
    assert x.grad.isfinite().all()
    y = torch.zeros(1, 2, 4, requires_grad=True)
    Attention(InverseEuclidean())(y, torch.zeros(1, 3, 4)).context.sum().backward()
    assert (y.grad == 0).all()


def test_distances_far_from_the_origin_keep_their_digits():
    """In fp32 the squares of 1000 have errors of 0.06: the identity has to begin at the keys."""
    query, key = torch.randn(1, 6, 8), torch.randn(1, 9, 8)
    layer = Attention(NegativeSquaredEuclidean())
    value = torch.randn(1, 9, 3)
    exact = layer(query.double(), key.double(), value.double()).context
    shifted = layer(query + 1024, key + 1024, value).context  # 1024 + x rounds x to 6e-5
    assert (shifted - exact).abs().max() < 5e-3


def test_each_head_and_each_label_has_a_biaffine_map_of_its_own():
    score = Biaffine(3, 5, key_bias=True, heads=2).double()
    torch.nn.init.normal_(score.weight)
    query, key = torch.randn(4, 2, 6, 3).double(), torch.randn(4, 2, 7, 5).double()
    one = torch.ones(1).double()
    got = score(query, score.prepare(key))
    for b in range(4):
        for h in range(2):
            for i in range(6):
                for j in range(7):
                    q, k = torch.cat([query[b, h, i], one]), torch.cat([key[b, h, j], one])
                    torch.testing.assert_close(got[b, h, i, j], q @ score.weight[h] @ k)
    labels = score(query[:, :1], score.prepare(key[:, :1]))  # one query, two maps
    assert labels.shape == (4, 2, 6, 7)
    heads = MultiHead(8, 2, Attention(Biaffine(4, 4, heads=2)))
    x = torch.randn(2, 5, 8)
    assert heads(x, x, mask=Lengths(torch.tensor([5, 2]))).context.shape == (2, 5, 8)


def test_every_term_of_a_trilinear_score_counts_somewhere():
    """The query's own term moves no softmax over keys, but one over queries."""
    score = Trilinear(D).double()
    x, y = torch.randn(1, 3, D).double(), torch.randn(1, 4, D).double()
    Attention(score)(x, y).context.square().sum().backward()
    assert score.w.grad[0].abs().max() < 1e-12
    assert score.w.grad[1:].abs().amin(-1).min() > 0
    score.w.grad = None
    Attention(score, select=OverQueries())(x, y).context.square().sum().backward()
    assert score.w.grad[0].abs().min() > 0


def test_uniform_is_the_mean_of_what_may_be_looked_at():
    value = torch.randn(2, 5, 3)
    lengths = torch.tensor([4, 0])
    got = Attention(Uniform())(torch.randn(2, 1, 7), value, mask=Lengths(lengths)).context
    torch.testing.assert_close(got[0, 0], value[0, :4].mean(0))
    assert (got[1] == 0).all()


def test_memory_holds_what_depends_on_the_keys_alone():
    for name in ("trilinear", "biaffine, all terms"):
        layer = Attention(SCORES[name]())
        query, key = torch.randn(2, 1, D), torch.randn(2, 6, D)
        memory = layer.remember(key[:, :4])
        memory = layer.extend(memory, key[:, 4:])
        torch.testing.assert_close(layer(query, memory).context, layer(query, key).context)
