"""Decomposable attention against its equations in NumPy."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.attention import explain
from regard.errors import RequestError
from regard.models.decomposable import Decomposable
from tests.models.slow import count, numbers, ragged, sentences, shaken, softmax

SIZES = {"embed": 5, "dim": 4, "hidden": 6, "dropout": 0.0}


def model(**changes):
    torch.manual_seed(1)
    return shaken(Decomposable(12, 3, **{**SIZES, **changes}))


def layers(p, path, x):
    for name in ("first", "second"):
        x = np.maximum(0, p[f"{path}.{name}.weight"] @ x + p[f"{path}.{name}.bias"])
    return x


def words(p, ids):
    rows = [p["embed.weight"][i] for i in ids]
    if "null" in p:
        rows = [p["null"], *rows]
    a = [p["project.weight"] @ row for row in rows]
    if "intra.words.position.table" not in p:
        return a
    d, f = p["intra.words.position.table"], [layers(p, "intra.score", x) for x in a]
    found = []
    for i in range(len(a)):
        e = [f[i] @ f[j] + d[min(abs(i - j), len(d) - 1)] for j in range(len(a))]
        found.append(sum(w * x for w, x in zip(softmax(np.array(e)), a, strict=True)))
    return [np.concatenate(both) for both in zip(a, found, strict=True)]


def by_hand(p, first, second):
    a, b = words(p, first), words(p, second)
    e = np.array([[layers(p, "attend", x) @ layers(p, "attend", y) for y in b] for x in a])
    over_b = np.stack([softmax(row) for row in e])
    over_a = np.stack([softmax(column) for column in e.T])
    v1 = sum(layers(p, "compare", np.concatenate([a[i], over_b[i] @ b])) for i in range(len(a)))
    v2 = sum(layers(p, "compare", np.concatenate([b[j], over_a[j] @ a])) for j in range(len(b)))
    h = np.concatenate([v1, v2])
    for k in (0, 1):
        h = np.maximum(0, p[f"head.hidden.{k}.weight"] @ h + p[f"head.hidden.{k}.bias"])
    return p["head.output.weight"] @ h + p["head.output.bias"], over_b, over_a


@pytest.mark.parametrize(
    "given", [{"null": False}, {}, {"distances": 3}], ids=["plain", "NULL", "intra"]
)
def test_it_computes_the_papers_equations(given):
    net, (first, lengths, _), (second, others, _) = model(**given), ragged(), ragged()
    second, others = second.flip(0)[:, :5], others.flip(0).clamp(max=5)
    p = numbers(net)
    with watch(net) as seen:
        logits = net(first, second, lengths, others).logits
    pairs = zip(sentences(first, lengths), sentences(second, others), strict=True)
    for row, (a, b) in enumerate(pairs):
        expected, over_b, over_a = by_hand(p, a, b)
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)
        for path, weights in (("premise", over_b), ("hypothesis", over_a)):
            found = seen[path].weights[row].detach().numpy()
            size = weights.shape
            np.testing.assert_allclose(found[: size[0], : size[1]], weights, atol=1e-12)
            assert not found[:, size[1] :].any()


def test_both_attentions_are_fused():
    said = explain(model())
    assert {said[path].kernel for path in ("premise", "hypothesis")} <= {"dots", "sdpa"}


@pytest.mark.parametrize(("distances", "known"), [(0, 381_803), (11, 582_214)])
def test_the_papers_counts(distances, known):
    """382 and 582 thousand; derived without NULL, which adds a word vector."""
    words = 20 * 300
    assert count(Decomposable, 20, 3, distances=distances, null=False) == known + words
    assert count(Decomposable, 20, 3, distances=distances) == known + words + 300


def test_it_reads_no_order_but_through_distances():
    first, second = torch.tensor([[4, 5, 6, 7]]), torch.tensor([[8, 9, 10]])
    other = first[:, [2, 0, 3, 1]]
    for net, same in ((model(hidden=16), True), (model(hidden=16, distances=3), False)):
        change = (net(first, second).logits - net(other, second).logits).abs().max()
        assert bool(change < 1e-12) is same


def test_wrong_settings_are_refused():
    with pytest.raises(RequestError, match="expected distances >= 0, got -1"):
        model(distances=-1)
