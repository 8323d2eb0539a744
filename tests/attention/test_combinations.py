"""Every sensible combination of parts runs, forward and backward, with every kernel it is given."""

import copy
import pickle
import random
from contextlib import suppress
from functools import cache

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from regard.attention import Attention, Edges, MultiHead, explain, kernels
from regard.attention._combinations import check
from regard.errors import RequestError
from tests.attention.combine import (
    CARRIES,
    LENGTHS,
    MASKS,
    POSITIONS,
    READS,
    SCORES,
    SELECTS,
    D,
    N,
)


def combined(score, position, select, read, carry):
    return Attention(
        SCORES[score](),
        position=POSITIONS[position](),
        select=SELECTS[select](),
        read=READS[read](),
        carry=CARRIES[carry](),
    )


KINDS = (SCORES, POSITIONS, SELECTS, READS, CARRIES)


@cache
def built(kind, name):
    """A part of each name, to ask whether it fits."""
    return KINDS[kind][name]()


def sensible(seed):
    """Names of parts that go together; every score is as likely as another.

    Half of the others are the plain ones (each table's first), which have kernels of their own.
    """
    generator = random.Random(seed)
    first = generator.choice(sorted(SCORES))
    while True:
        others = (
            generator.choice(sorted(kind)) if generator.random() < 0.5 else next(iter(kind))
            for kind in KINDS[1:]
        )
        names = (first, *others)
        score, position, select, read, carry = (built(i, name) for i, name in enumerate(names))
        with suppress(RequestError):
            check(score, select, read, position, carry)
            return names


def dense(mask):
    """What may be looked at, (rows, N, N)."""
    if mask is None:
        return torch.ones(len(LENGTHS), N, N, dtype=torch.bool)
    allowed = mask.dense(N, N, at=0, device=torch.device("cpu"))
    return allowed.expand(len(LENGTHS), N, N)


def spread(weights, mask):
    """Weights of edges as weights of pairs, (…, Q, K[, D])."""
    if not isinstance(mask, Edges):
        return weights
    tail = weights.shape[2:]
    pairs = weights.new_zeros(len(weights), N, N, *tail)
    pairs[:, mask.targets, mask.sources] = weights
    return pairs


def check_sums(select, weights, allowed):
    """Weights add up to what their select declares."""
    if weights.dim() == allowed.dim() + 1:  # one a feature
        weights, allowed = weights.movedim(-1, 0), allowed.expand(D, *allowed.shape)
    else:
        assert (weights[~allowed] == 0).all()
    if select.sums == "free":
        return
    axis = -2 if select.sums == "over queries" else -1
    total = weights.sum(axis)
    assert (weights >= 0).all()
    if select.sums == "at most 1":
        assert (total <= 1 + 1e-9).all()
    elif select.window is None:
        torch.testing.assert_close(total, allowed.any(axis).to(total))
    else:  # a row whose window is all masked has nothing, others have 1
        torch.testing.assert_close(total, (total > 0).to(total))


def run(layer, inputs, mask, steps, weights):
    """Some steps (one without a carry), and the gradients of everything."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    layer.zero_grad()
    torch.manual_seed(11)  # Hard draws the same
    state, seen, total = None, [], 0
    for _ in range(steps):
        got = layer(*inputs, mask=mask, state=state, at=0, need_weights=weights)
        state = got.state
        seen.append(got)
        total = total + got.context.square().sum()
        if got.log_prob is not None:
            total = total + got.log_prob.masked_fill(got.log_prob.isneginf(), 0.0).sum()
    if total.requires_grad:
        total.backward()
    leaves = (*inputs, *layer.parameters())
    return seen, [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]


DRAWN = {
    "parts": st.integers(0, 10**6).map(sensible),
    "mask": st.sampled_from(sorted(MASKS)),
    "evaluating": st.booleans(),
    "seed": st.integers(0, 10**6),
}


@settings(max_examples=30)
@given(**DRAWN)
def test_a_sensible_combination_runs(parts, mask, evaluating, seed):
    agrees(parts, mask, evaluating, seed)


@pytest.mark.slow
@settings(max_examples=500)
@given(**DRAWN)
def test_many_sensible_combinations_run(parts, mask, evaluating, seed):
    agrees(parts, mask, evaluating, seed)


def agrees(parts, mask, evaluating, seed):
    """Runs with the reference, adds up, and gives the same with the kernel that is taken."""
    torch.manual_seed(seed)
    layer = combined(*parts).double()
    carry = parts[-1]
    layer.train(not evaluating)
    made = MASKS[mask]()
    allowed = dense(made)
    inputs = [torch.randn(len(LENGTHS), N, D, dtype=torch.float64) for _ in range(3)]
    steps = 1 if carry == "none" else 2
    with kernels("reference"):
        expected, expected_grads = run(layer, inputs, made, steps, True)
    empty = ~allowed.any(-1)
    for got in expected:
        assert got.context.isfinite().all()
        assert (got.context[empty] == 0).all()
        check_sums(layer.select, spread(got.weights, made), allowed)
    assert all(g.isfinite().all() for g in expected_grads)
    for weights in (False, True):
        fast, grads = run(layer, inputs, made, steps, weights)
        for one, other in zip(fast, expected, strict=True):
            torch.testing.assert_close(one.context, other.context, atol=1e-9, rtol=1e-7)
            if weights:
                torch.testing.assert_close(one.weights, other.weights, atol=1e-9, rtol=1e-7)
            if other.log_prob is not None:
                torch.testing.assert_close(one.log_prob, other.log_prob, atol=1e-9, rtol=1e-7)
            if other.state is not None:
                torch.testing.assert_close(one.state.value, other.state.value)
        for one, other in zip(grads, expected_grads, strict=True):
            torch.testing.assert_close(one, other, atol=1e-8, rtol=1e-6)


@settings(max_examples=25)
@given(
    parts=st.integers(0, 10**6).map(sensible),
    mask=st.sampled_from(sorted(set(MASKS) - {"edges"})),
    remembered=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_heads_around_it(parts, mask, remembered, seed):
    """Two heads are the attention twice, on halves of the projections."""
    assume(parts[3] != "pointer")
    torch.manual_seed(seed)
    layer = MultiHead(2 * D, 2, combined(*parts)).double().eval()
    query, key = (torch.randn(len(LENGTHS), N, 2 * D).double() for _ in range(2))
    made = MASKS[mask]()
    memory = layer.remember(key) if remembered else key
    got = layer(query, memory, mask=made, at=0, need_weights=True)
    q, k, v = layer.query(query), layer.key(key), layer.value(key)
    halves = [
        layer.attention(
            *(x[..., h * D : (h + 1) * D] for x in (q, k, v)), mask=made, at=0, need_weights=True
        )
        for h in range(2)
    ]
    expected = layer.out(torch.cat([half.context for half in halves], -1))
    torch.testing.assert_close(got.context, expected)
    torch.testing.assert_close(got.weights, torch.stack([half.weights for half in halves], 1))
    if parts[-1] != "none":
        torch.testing.assert_close(
            got.state.value, torch.stack([half.state.value for half in halves], 1)
        )


@pytest.mark.parametrize("score", sorted(SCORES))
def test_every_score_is_explained_and_deep_copied(score):
    featured = score in ("additive with features", "location-aware")
    wide = score in ("feature additive", "feature perceptron", "source to token")
    layer = combined(
        score,
        "none",
        "feature softmax" if wide else "softmax",
        "feature sum" if wide else "sum",
        "coverage" if featured else "none",
    )
    assert str(explain(layer)[""])
    x = torch.randn(2, 3, D)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        torch.testing.assert_close(twin(x, x).context, layer(x, x).context)
