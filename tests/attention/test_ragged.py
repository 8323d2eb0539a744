"""Ragged batches against a loop over their sequences and against padding."""

import copy
import os

import pytest
import torch

import regard.attention
from regard.attention import (
    Additive,
    Attention,
    Biaffine,
    Causal,
    FeatureSoftmax,
    FeatureSum,
    MultiHead,
    NegativeSquaredEuclidean,
    PreviousWeights,
    Ragged,
    RelativeKeys,
    SplitLinear,
    Window,
    attend,
    attend_ragged,
    kernels,
)
from regard.attention.ragged import _padded
from regard.errors import RequestError
from tests.attention.combine import SCORES, D

SCORES = SCORES | {
    "biaffine, a head each": lambda: Biaffine(D, D, key_bias=True, heads=2),
    "additive, a head each": lambda: Additive(D, D, 5, heads=2),
    "relative keys, a head each": lambda: RelativeKeys(D, 2, heads=2),
    "split linear, a head each": lambda: SplitLinear(D, D, heads=2),
}


def ragged(lengths, *shape):
    return Ragged.of([torch.randn(n, *shape).double() for n in lengths])


def test_packing_and_the_way_back():
    x = ragged([3, 0, 5], 2, 4)
    assert x.lengths == (3, 0, 5)
    assert len(x) == 3
    padded = x.padded()
    assert padded.shape == (3, 5, 2, 4)
    assert (padded[0, 3:] == 0).all()
    again = Ragged.from_padded(padded, torch.tensor([3, 0, 5]))
    assert torch.equal(again.tensor, x.tensor)
    assert torch.equal(again.offsets, x.offsets)
    assert torch.equal(x.with_tensor(x.tensor * 2).sequences()[2], x.sequences()[2] * 2)


@pytest.mark.parametrize("backend", ["slices", "padded"])
@pytest.mark.parametrize("heads", [(), (2,)])
@pytest.mark.parametrize("which", ["plain", "causal", "window", "relative", "additive"])
def test_each_sequence_looks_at_its_own_keys(backend, heads, which):
    parts = {
        "plain": {},
        "causal": {"mask": Causal()},
        "window": {"mask": Window(1, 0)},
        "relative": {"score": RelativeKeys(4, 2).double()},
        "additive": {"score": Additive(4, 4, 3).double()},
    }[which]
    query, key, value = (
        ragged([3, 1, 5], *heads, 4),
        ragged([3, 6, 2], *heads, 4),
        ragged([3, 6, 2], *heads, 3),
    )
    if which == "relative":  # a position for each row
        query = ragged([3, 6, 2], *heads, 4)
    for part in (query, key, value):
        part.tensor.requires_grad_()
    got = (
        attend_ragged(query, key, value, **parts)
        if backend == "slices"
        else _padded(query, key, value, parts)
    )
    got.tensor.sum().backward()
    grads = [part.tensor.grad.clone() for part in (query, key, value)]
    for part in (query, key, value):
        part.tensor.grad = None
    total = 0.0
    for n, (q, k, v) in enumerate(
        zip(query.sequences(), key.sequences(), value.sequences(), strict=True)
    ):
        q, k, v = ((x.transpose(0, 1) if heads else x)[None] for x in (q, k, v))
        context = attend(q, k, v, **parts).context[0]
        context = context.transpose(0, 1) if heads else context
        torch.testing.assert_close(got.sequences()[n], context)
        total = total + context.sum()
    total.backward()
    for part, grad in zip((query, key, value), grads, strict=True):
        torch.testing.assert_close(grad, part.tensor.grad)


def test_empty_sequences_are_nothing_or_zeros():
    x = ragged([0, 4, 0], 4)
    assert attend_ragged(x, x).tensor.shape == (4, 4)
    y = ragged([2, 4, 0], 4)
    context = attend_ragged(y, x).tensor
    assert (context[:2] == 0).all()
    none = ragged([0], 4)
    assert attend_ragged(none, none).tensor.shape == (0, 4)


def test_what_is_refused():
    x, y = ragged([3, 2], 4), ragged([5], 4)
    with pytest.raises(RequestError, match="as many sequences"):
        attend_ragged(x, y)
    with pytest.raises(RequestError, match="rise from 0 to 5"):
        Ragged(torch.zeros(5, 2), torch.tensor([0, 4]))
    with pytest.raises(RequestError, match="at least one sequence"):
        Ragged.of([])
    with pytest.raises(RequestError, match="has no carry"):
        attend_ragged(x, x, carry=PreviousWeights())


def test_every_score_is_among_those_tried():
    exported = [getattr(regard.attention, name) for name in regard.attention.__all__]
    scores = {x for x in exported if isinstance(x, type) and hasattr(x, "prepare")}
    scores -= {regard.attention.Score}  # the protocol
    assert scores == {type(make()) for make in SCORES.values()}


@pytest.mark.parametrize("lengths", [[7, 3, 1, 12], [2]])
@pytest.mark.parametrize("backend", ["at once", "padded"])
@pytest.mark.parametrize("heads", [(), (2,)])
@pytest.mark.parametrize("name", SCORES)
def test_every_score_against_each_sequence_alone_in_float64(name, heads, backend, lengths):
    score = SCORES[name]()
    if not heads and "a head each" in name:
        pytest.skip("it has no scores without heads")
    x = [torch.randn(n, *heads, D) + 3 * i for i, n in enumerate(lengths)]
    if getattr(score, "feature_dim", 0):
        with pytest.raises(RequestError, match="looks at features of a carry"):
            attend_ragged(Ragged.of(x), Ragged.of(x), score=score)
        return
    for p in score.parameters():  # biases start at zero
        torch.nn.init.normal_(p, std=0.5)
    wide = getattr(score, "per_feature", False)
    parts = {"select": FeatureSoftmax(), "read": FeatureSum()} if wide else {}
    made = [Ragged.of(x) for _ in range(3)]
    for part in made:
        part.tensor.requires_grad_()
    if backend == "at once":
        got = attend_ragged(*made, score=score, **parts)
    else:
        got = _padded(*made, {"score": score, **parts})
    weight = torch.randn(got.tensor.shape)
    found = torch.autograd.grad(
        (got.tensor * weight).sum(), [p.tensor for p in made], materialize_grads=True
    )
    exact = [part.tensor.detach().double().requires_grad_() for part in made]
    score = copy.deepcopy(score).double()
    contexts = []
    for rows in zip(*(e.split(lengths) for e in exact), strict=True):
        rows = [r.transpose(0, 1) if heads else r for r in rows]
        with kernels("reference"):
            context = attend(*rows, score=score, **parts).context
        contexts.append(context.transpose(0, 1) if heads else context)
    expected = torch.cat(contexts)
    torch.testing.assert_close(got.tensor.double(), expected, atol=2e-5, rtol=1e-5)
    grads = torch.autograd.grad((expected * weight).sum(), exact, materialize_grads=True)
    # Built without optimization the C adds up in another order.
    bound = 5e-4 if os.environ.get("REGARD_SANITIZED") == "1" else 2e-4
    for one, other in zip(found, grads, strict=True):
        torch.testing.assert_close(one.double(), other, atol=bound, rtol=1e-4)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("score", ["squared distance", "biaffine, a head each", "trilinear"])
def test_heads_of_a_layer_over_ragged_sequences(score, grad):
    layer = MultiHead(2 * D, 2, Attention(SCORES[score]()))
    x = ragged([7, 3, 1, 12], 2 * D)
    x = x.with_tensor(x.tensor.float())
    with torch.set_grad_enabled(grad):
        got = layer(x, x).context
        with kernels("reference"):
            expected = torch.cat([layer(one[None], one[None]).context[0] for one in x.sequences()])
    torch.testing.assert_close(got, expected)


def test_a_sequence_far_away_does_not_blur_the_others():
    near, far = torch.randn(5, D), torch.randn(4, D) + 1e4
    score = NegativeSquaredEuclidean()
    together = Ragged.of([near, far])
    alone = attend(near, near, score=score).context
    torch.testing.assert_close(attend_ragged(together, together, score=score).sequences()[0], alone)
