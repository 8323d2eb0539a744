"""BCNN and ABCNN against their equations in NumPy, column by column."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.attention import explain
from regard.errors import RequestError
from regard.models.abcnn import ABCNN
from tests.models.slow import count, numbers, ragged, sentences, shaken

SIZES = {"embed": 5, "filters": 4, "width": 3, "length": 4}
W, FILTERS, LENGTH = 3, 4, 4


def model(**changes):
    torch.manual_seed(1)
    return shaken(ABCNN(12, 3, **{**SIZES, **changes}))


def match(x, y):
    return np.array([[1 / (1 + np.sqrt(((a - b) ** 2).sum())) for b in y] for a in x])


def met(p, path, a, size):
    """x_a of each word, from the words of the other sentence that W has a row for."""
    weight = p[f"{path}.input.weight"]
    return [sum(row[j] * weight[j] for j in range(min(size, LENGTH))) for row in a]


def convolved(p, path, x, x_a):
    """Column i sees the words i - w + 1 to i; those outside of the sentence are zero."""
    filters = p[f"{path}.convolve.weight"].reshape(W, FILTERS, -1)
    second = p.get(f"{path}.input.project.weight", np.zeros(0)).reshape(W, FILTERS, -1)
    columns = []
    for i in range(len(x) + W - 1):
        total = p[f"{path}.bias"].copy()
        for k in range(W):
            if 0 <= i - k < len(x):
                total += filters[k] @ x[i - k]
                if x_a is not None:
                    total += second[k] @ x_a[i - k]
        columns.append(np.tanh(total))
    return columns


def by_hand(p, blocks, attention, similarity, weights, pair):
    pair = [[p["embed.weight"][i] for i in ids] for ids in pair]
    known = [[np.mean(side, 0) for side in pair]]
    for b in range(blocks):
        path, x_a = f"blocks.{b}", [None, None]
        if attention in ("input", "both"):
            a = match(*pair)
            x_a = [met(p, path, a, len(pair[1])), met(p, path, a.T, len(pair[0]))]
        columns = [convolved(p, path, x, other) for x, other in zip(pair, x_a, strict=True)]
        if attention in ("pooling", "both"):
            a = match(*columns)
            share = [a.sum(1), a.sum(0)]
            if weights == "shares":
                share = [one / one.sum() for one in share]
        else:
            share = [np.full(len(c), 1 / W) for c in columns]
        known.append(
            [np.average(np.array(c), 0, weights=s) for c, s in zip(columns, share, strict=True)]
        )
        pair = [
            [sum(s[k] * c[k] for k in range(j, j + W)) for j in range(len(x))]
            for x, c, s in zip(pair, columns, share, strict=True)
        ]
    alike = {
        "cosine": lambda u, v: [u @ v / np.sqrt((u @ u) * (v @ v))],
        "distance": lambda u, v: [1 / (1 + np.sqrt(((u - v) ** 2).sum()))],
        "vectors": lambda u, v: [*u, *v],
    }[similarity]
    read = np.concatenate([alike(*both) for both in known])
    return p["head.output.weight"] @ read + p["head.output.bias"]


@pytest.mark.parametrize(
    ("attention", "similarity", "weights"),
    [
        ("none", "cosine", "sums"),
        ("input", "distance", "sums"),
        ("pooling", "vectors", "sums"),
        ("pooling", "cosine", "shares"),
        ("both", "cosine", "sums"),
    ],
)
def test_it_computes_the_papers_equations(attention, similarity, weights):
    net = model(attention=attention, similarity=similarity, weights=weights)
    (first, lengths, _), (second, others, _) = ragged(), ragged()
    second, others = second.flip(0)[:, :5], others.flip(0).clamp(max=5)
    p = numbers(net)
    logits = net(first, second, lengths, others).logits.detach().numpy()
    pairs = zip(sentences(first, lengths), sentences(second, others), strict=True)
    for row, pair in enumerate(pairs):
        expected = by_hand(p, 2, attention, similarity, weights, pair)
        np.testing.assert_allclose(logits[row], expected, atol=1e-9)


def test_attention_in_the_pooling_has_no_parameters():
    """That before the convolution: W and a second channel, of 300 and then of 50 numbers a word."""
    plain = count(ABCNN, 20, 2, attention="none")
    # two blocks of 50 filters over 4 words, three cosines to two classes
    assert plain == 20 * 300 + (4 * 300 * 50 + 50) + (4 * 50 * 50 + 50) + (3 * 2 + 2)
    assert count(ABCNN, 20, 2, attention="pooling") == plain
    more = (40 * 300 + 4 * 300 * 50) + (40 * 50 + 4 * 50 * 50)
    assert count(ABCNN, 20, 2, attention="input") == plain + more
    assert count(ABCNN, 20, 2, attention="both") == plain + more


def test_the_differences_of_all_pairs_are_never_stored():
    net = model(attention="both")
    assert {said.kernel for said in explain(net).values()} == {"streaming"}
    first, second = torch.randint(4, 12, (2, 9)), torch.randint(4, 12, (2, 7))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: (saved.append(tuple(t.shape)), t)[1], lambda t: t
    ):
        net.train()(first, second)
    assert not any(len(shape) == 4 and shape[1] in (9, 11) for shape in saved)


def test_equal_sentences_match_and_are_alike():
    net = model(attention="pooling")
    ids = torch.randint(4, 12, (2, 6))
    with watch(net) as seen:
        logits = net(ids, ids).logits
    a = seen["blocks.0.pooling.match.columns"].weights
    torch.testing.assert_close(a, a.mT)
    torch.testing.assert_close(a.diagonal(0, 1, 2), torch.ones(2, 8).double())
    p = numbers(net)
    expected = p["head.output.weight"].sum(1) + p["head.output.bias"]  # all three cosines are 1
    np.testing.assert_allclose(logits.detach().numpy(), [expected] * 2, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"attention": "pool"}, "no attention 'pool': did you mean 'pooling'"),
        ({"similarity": "cosin"}, "no similarity 'cosin': did you mean 'cosine'"),
        ({"weights": "sum"}, "no weights 'sum': did you mean 'sums'"),
        ({"width": 0}, "width, blocks and a length of 1 or more, got 0, 2 and 4"),
    ],
)
def test_wrong_settings_are_refused(wrong, said):
    with pytest.raises(RequestError, match=said):
        model(**wrong)
