"""MPCNN against its equations in NumPy, filter by filter, and its layer of filters by dimension."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.errors import RequestError
from regard.layers import dimension_conv
from regard.layers.dimension_conv import largest_response
from regard.models.mpcnn import MPCNN
from tests.models.slow import numbers, ragged, sentences, shaken, softmax

POOLS = {"max": np.max, "min": np.min, "mean": np.mean}
D, NB, WIDTH = 4, 2, 3
SIZES = {"embed": D, "filters": D, "dim_filters": NB, "width": WIDTH, "ffn_dim": 6}


def model(**changes):
    torch.manual_seed(1)
    return shaken(MPCNN(12, 3, **{**SIZES, **changes}))


def cos(u, v):
    norms = np.sqrt((u @ u) * (v @ v))
    return u @ v / norms if norms else 0.0


def com(u, v, each=True):
    return [cos(u, v), np.sqrt(((u - v) ** 2).sum()), *(np.abs(u - v) if each else [])]


def block_a(p, x, width, pool, pools):
    weight = p[f"perspectives.whole.{width - 1}.weight"]
    filters = len(weight) // width // len(pools)
    weight = weight.reshape(width, len(pools), filters, -1)[:, pools.index(pool)]
    bias = p["perspectives.whole_bias"][width - 1].reshape(len(pools), -1)[pools.index(pool)]
    found = []
    for f in range(filters):
        windows = range(len(x) - width + 1)
        seen = [sum(weight[k, f] @ x[t + k] for k in range(width)) + bias[f] for t in windows]
        found.append(POOLS[pool](np.tanh(seen)))
    return np.array(found)


def block_b(p, x, width, pool, f, pools):
    f = f + NB * [kind for kind in pools if kind != "mean"].index(pool)
    found = []
    for d in range(x.shape[1]):
        weight, bias = p[f"perspectives.dims.{width - 1}"], p["perspectives.dims_bias"]
        windows = range(len(x) - width + 1)
        seen = [sum(weight[d, k, f] * x[t + k, d] for k in range(width)) for t in windows]
        found.append(POOLS[pool](np.tanh(np.array(seen) + bias[width - 1, d, f])))
    return np.array(found)


def by_hand(p, first, second, interaction=None, pools=tuple(POOLS), dim_filters=NB):
    pair = [p["embed.weight"][ids] for ids in (first, second)]
    if interaction == "attention":
        match = np.array([[cos(a, b) for b in pair[1]] for a in pair[0]])
        shares = softmax(match.sum(1)), softmax(match.sum(0))
        pair = [np.concatenate([s[:, None] * x, x], 1) for s, x in zip(shares, pair, strict=True)]
    pair = [np.concatenate([x, np.zeros((max(0, WIDTH - len(x)), x.shape[1]))]) for x in pair]
    widths = [*range(1, WIDTH + 1), "inf"]

    def whole(x, width, pool):
        return POOLS[pool](x, 0) if width == "inf" else block_a(p, x, width, pool, pools)

    same = p["perspectives.whole_bias"].shape[1] // len(pools) == pair[0].shape[1]
    horizontal, vertical, apart, dims = [], [], [], []
    for pool in pools:
        a, b = ([whole(x, w, pool) for w in widths] for x in pair)
        if not same:
            apart += com(a.pop(), b.pop())
        horizontal += [n for u, v in zip(zip(*a, strict=True), zip(*b, strict=True), strict=True)
                       for n in com(np.array(u), np.array(v), each=False)]  # fmt: skip
        vertical += [n for u in a for v in b for n in com(u, v)]
    for pool in (pool for pool in pools if pool != "mean"):
        for w in range(1, WIDTH + 1):
            for f in range(dim_filters):
                dims += com(*(block_b(p, x, w, pool, f, pools) for x in pair))
    return np.array([*horizontal, *vertical, *apart, *dims])


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"filters": 3},
        {"filters": 2 * D, "interaction": "attention"},
        {"pools": ["min", "mean"]},
        {"pools": ["max"], "dim_filters": 0},
        {"pools": ["mean"]},
    ],
    ids=["paper", "filters of their own", "attention", "two pools", "no block B", "means alone"],
)
def test_it_computes_the_papers_equations(given):
    net = model(**given)
    (first, lengths, _), (second, others, _) = ragged(), ragged()
    second, others = second.flip(0)[:, :5], others.flip(0).clamp(max=5)
    p = numbers(net)
    compared = net.compared(first, second, lengths, others).detach().numpy()
    logits = net(first, second, lengths, others).logits.detach().numpy()
    pairs = zip(sentences(first, lengths), sentences(second, others), strict=True)
    for row, pair in enumerate(pairs):
        expected = by_hand(p, *pair, **{k: v for k, v in given.items() if k != "filters"})
        assert expected.shape == (net.comparisons,)
        np.testing.assert_allclose(compared[row], expected, atol=1e-9)
        hidden = np.tanh(p["head.hidden.0.weight"] @ expected + p["head.hidden.0.bias"])
        found = p["head.output.weight"] @ hidden + p["head.output.bias"]
        np.testing.assert_allclose(logits[row], found, atol=1e-9)


def test_the_papers_numbers_of_comparisons():
    with torch.device("meta"):
        assert MPCNN(20, 5).comparisons == 52_536
        assert MPCNN(20, 5).head.hidden[0].weight.numel() == 7_880_400
        assert MPCNN(20, 5, embed=100, filters=100).comparisons == 17_736
        # vectors of width ∞ have 300 numbers and the others 200: 9 + 1 pairs, 3 widths
        other = 3 * 200 * 2 + 3 * 9 * 202 + 3 * 302 + 36_240
        assert MPCNN(20, 5, filters=200).comparisons == other


def test_exchanged_sentences_exchange_the_widths():
    net, ids = model(), torch.randint(4, 12, (2, 2, 6))
    here, there = (net.compared(*pair) for pair in (ids, ids.flip(0)))
    split = [3 * D * 2, 3 * 16 * (D + 2), 2 * WIDTH * NB * (D + 2)]
    (a, b, c), (x, y, z) = here.split(split, 1), there.split(split, 1)
    torch.testing.assert_close(a, x)
    torch.testing.assert_close(c, z)
    grid = b.view(2, 3, 4, 4, D + 2), y.view(2, 3, 4, 4, D + 2)
    torch.testing.assert_close(grid[0], grid[1].transpose(2, 3))
    assert not torch.allclose(b, y)


def test_equal_sentences_are_alike_and_have_finite_gradients():
    """All differences are zero, where a norm has no derivative."""
    net, ids = model(), torch.randint(4, 12, (2, 6))
    compared = net.compared(ids, ids)
    across = compared[:, 3 * D * 2 :][:, : 3 * 16 * (D + 2)].view(2, 3, 4, 4, D + 2)
    own = across.diagonal(0, 2, 3)
    torch.testing.assert_close(own[:, :, 0], torch.ones(2, 3, 4).double())
    assert not own[:, :, 1:].any()
    net(ids, ids).logits.sum().backward()
    assert all(p.grad.isfinite().all() for p in net.parameters())


def test_equal_sentences_of_words_of_one_length_have_equal_energies():
    net, ids = model(interaction="attention"), torch.randint(4, 12, (2, 6))
    with watch(net) as seen:
        net(ids, ids)
    d = seen["interaction.words"].weights
    torch.testing.assert_close(d.sum(1), d.sum(2))


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("few", [False, True])
def test_filters_of_each_dimension_are_a_grouped_convolution(width, few, monkeypatch):
    if few:
        monkeypatch.setattr(dimension_conv, "RESPONSES", 60)
    x = torch.randn(3, 7, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, width, 4, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([7, 3, 5])
    found = largest_response(x, weight, lengths)
    filters = weight.mT.reshape(20, 1, width)
    for row, size in enumerate(lengths.tolist()):
        response = torch.nn.functional.conv1d(x[row, :size].T[None], filters, groups=5)
        torch.testing.assert_close(found[row], response.amax(2).view(5, 4))
    assert torch.autograd.gradcheck(lambda a, b: largest_response(a, b, lengths), (x, weight))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"interaction": "atention"}, "no interaction 'atention': did you mean 'attention'"),
        ({"width": 0}, "filters of 1 or more, and dim_filters of 0 or more, got 0, 4 and 2"),
        ({"dim_filters": -1}, "dim_filters of 0 or more, got 3, 4 and -1"),
        ({"pools": ["max", "mode"]}, "no pool 'mode'"),
        ({"pools": []}, "expected pools, each once"),
        ({"pools": ["max", "max"]}, "expected pools, each once"),
    ],
)
def test_wrong_settings_are_refused(wrong, said):
    with pytest.raises(RequestError, match=said):
        model(**wrong)
