"""The frozen naive forms are the same functions as `kernels("reference")`."""

import importlib.util
import math

import pytest
import torch

from regard import attention
from regard.attention import (
    Additive,
    ALiBi,
    Attention,
    Causal,
    Directional,
    FeatureAdditive,
    FeatureSoftmax,
    FeatureSum,
    InverseEuclidean,
    Lengths,
    RelativeKeys,
    RelativeValues,
    ScaledDot,
    WeightedSum,
    Window,
    attend,
    kernels,
)
from tests.repo.tree import TOP


@pytest.fixture(scope="module")
def naive():
    spec = importlib.util.spec_from_file_location("naive", TOP / "benchmarks" / "naive.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def reference(query, key, value, **parts):
    with kernels("reference"):
        return attend(query, key, value, **parts).context


@pytest.mark.parametrize("form", ["additive_scores", "additive_scores_sigmoid"])
def test_additive(naive, form):
    layer = Attention(score=Additive(6, 5, 4)).double()
    query, key = normal(2, 3, 6), normal(2, 7, 5)
    mask = torch.arange(7) < torch.tensor([7, 4])[:, None, None]
    q, k = layer.score.query(query), layer.score.key(key)
    scores = getattr(naive, form)
    found = naive.additive_attention(q, k, key, layer.score.v, mask, scores=scores)
    expected = reference(query, key, key, score=layer.score, mask=mask)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(scores(q, k, layer.score.v), layer.scores(query, key))
    step = naive.additive_step(
        query[:, :1], k, key, layer.score.query.weight, layer.score.v, scores=scores
    )
    torch.testing.assert_close(step, reference(query[:, :1], key, key, score=layer.score))


@pytest.mark.parametrize("form", ["features", "features_sigmoid"])
@pytest.mark.parametrize("direction", [None, "forward", "backward"])
def test_features(naive, form, direction):
    score = FeatureAdditive(6, 6, 6).double()
    x, value = normal(2, 7, 6), normal(2, 7, 6)
    mask = None if direction is None else Directional(direction)
    place = torch.arange(7)
    dense = {
        None: None,
        "forward": place[None] < place[:, None],
        "backward": place[None] > place[:, None],
    }[direction]
    found = getattr(naive, form)(score.query(x), score.key(x), value, mask=dense)
    parts = {"score": score, "select": FeatureSoftmax(), "read": FeatureSum()}
    torch.testing.assert_close(found, reference(x, x, value, mask=mask, **parts))


@pytest.mark.parametrize("with_values", [False, True])
def test_shaw(naive, with_values):
    score = RelativeKeys(6, 3).double()
    read = RelativeValues(6, 3).double() if with_values else WeightedSum()
    q, k, v = normal(2, 2, 9, 6), normal(2, 2, 9, 6), normal(2, 2, 9, 6)
    found = naive.shaw(q, k, v, score.table, read.table if with_values else None)
    torch.testing.assert_close(found, reference(q, k, v, score=score, read=read))


def test_the_dot_family(naive):
    q, k, v = normal(2, 2, 9, 6), normal(2, 2, 9, 6), normal(2, 2, 9, 6)
    torch.testing.assert_close(naive.dot(q, k, v), reference(q, k, v))
    lower = torch.ones(9, 9).tril().bool()
    torch.testing.assert_close(naive.dot(q, k, v, lower), reference(q, k, v, mask=Causal()))
    found = naive.window(q, k, v, 3, 1)
    torch.testing.assert_close(found, reference(q, k, v, mask=Window(3, 1)))
    lengths = torch.tensor([9, 4])
    found = naive.ragged(q, k, v, lengths)
    torch.testing.assert_close(found, reference(q, k, v, mask=Lengths(lengths[:, None])))
    position = ALiBi(2)
    place = torch.arange(9)
    bias = -torch.tensor([2.0**-4, 2.0**-8], dtype=torch.float64)[:, None, None] * (
        (place[None] - place[:, None]).abs()
    )
    found = naive.biased(q, k, v, bias)
    torch.testing.assert_close(found, reference(q, k, v, position=position, score=ScaledDot()))


def test_inverse_euclidean(naive):
    q, k, v = normal(2, 5, 6), normal(2, 9, 6), normal(2, 9, 6)
    expected = reference(q, k, v, score=InverseEuclidean())
    torch.testing.assert_close(naive.euclidean(q, k, v), expected)


def test_location_aware_by_hand(naive):
    """Against the equation of Chorowski et al. (2015), word by word."""
    query, key, value, v = normal(1, 1, 4), normal(1, 6, 4), normal(1, 6, 3), normal(4)
    filters, weight = normal(2, 1, 3), normal(4, 2)
    previous = torch.softmax(normal(1, 1, 6), -1)
    context, weights = naive.location_aware_step(query, key, value, v, previous, filters, weight)
    padded = [0.0, *previous.flatten().tolist(), 0.0]
    scores = []
    for j in range(6):
        f = [sum(float(filters[c, 0, u]) * padded[j + u] for u in range(3)) for c in range(2)]
        inside = query[0, 0] + key[0, j] + weight @ torch.tensor(f, dtype=torch.float64)
        scores.append(float(v @ torch.tanh(inside)))
    total = sum(math.exp(s) for s in scores)
    expected = torch.tensor([math.exp(s) / total for s in scores], dtype=torch.float64)
    torch.testing.assert_close(weights.flatten(), expected)
    torch.testing.assert_close(context[0, 0], expected @ value[0])


def test_gat(naive):
    if not hasattr(attention, "Edges"):
        pytest.skip("this build has no Edges")
    score = attention.SplitLinear(4, 4, heads=2).double()
    pairs = torch.randint(9, (2, 30))
    graph = attention.Edges.of(pairs, 9)
    nodes = normal(9, 2, 4)
    found = naive.gat(nodes, score.key, score.query, graph.sources, graph.targets)
    h = nodes.transpose(0, 1)
    expected = reference(h, h, h, score=score, mask=graph).transpose(0, 1)
    torch.testing.assert_close(found, expected)


def test_local_p_by_hand(naive):
    """Luong et al. (2015, 3.2): softmax in the window, then the Gaussian, sigma = D / 2."""
    q, k, v = normal(1, 3, 4), normal(1, 12, 4), normal(1, 12, 5)
    center = torch.tensor([[0.4, 5.7, 10.9]], dtype=torch.float64)
    found = naive.local_p(q, k, v, center, half=2)
    for i, p in enumerate(center[0].tolist()):
        inside = [s for s in range(12) if abs(s - math.floor(p)) <= 2]
        e = [math.exp(float(q[0, i] @ k[0, s])) for s in inside]
        weights = [
            x / sum(e) * math.exp(-((s - p) ** 2) / 2) for x, s in zip(e, inside, strict=True)
        ]
        expected = sum(w * v[0, s] for w, s in zip(weights, inside, strict=True))
        torch.testing.assert_close(found[0, i], expected)
