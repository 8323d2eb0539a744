"""Hierarchical co-attention against its equations in NumPy."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.errors import RequestError
from regard.models.coattention import CoAttention, ParallelCoAttention
from regard.protocols import Inputs
from tests.models.slow import numbers, ragged, sentences, shaken, sigmoid, softmax

D = 4


def model(**changes):
    torch.manual_seed(1)
    return shaken(CoAttention(12, 3, **{"embed": D, "hidden": 3, "dropout": 0.0, **changes}))


def lstm(p, xs):
    path = "hierarchy.lstm.stack"
    b = p[f"{path}.bias_ih_l0"] + p[f"{path}.bias_hh_l0"]
    h = c = np.zeros(D)
    states = []
    for x in xs:
        i, f, g, o = np.split(p[f"{path}.weight_ih_l0"] @ x + p[f"{path}.weight_hh_l0"] @ h + b, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.array(states)


def text(p, ids):
    words = p["embed.weight"][ids]
    grams = p["hierarchy.grams.weight"].reshape(6, D, D)
    padded, phrases = np.concatenate([words, np.zeros((2, D))]), []
    for t in range(len(words)):
        responses, place = [], 0
        for row, n in enumerate((1, 2, 3)):
            seen = sum(grams[place + k] @ padded[t + k] for k in range(n))
            responses.append(np.tanh(seen + p["hierarchy.bias"][row]))
            place += n
        phrases.append(np.max(responses, 0))
    return [words, np.array(phrases), lstm(p, phrases)]


def parallel(p, path, q, v):
    c = np.tanh(q @ p[f"{path}.affinity.score.product.weight"] @ v.T)
    w_q, w_v = p[f"{path}.query.weight"], p[f"{path}.value.weight"]
    h_v = np.tanh(v @ w_v.T + c.T @ (q @ w_q.T))
    h_q = np.tanh(q @ w_q.T + c @ (v @ w_v.T))
    a_q = softmax(h_q @ p[f"{path}.of_query.query"][0])
    a_v = softmax(h_v @ p[f"{path}.of_value.query"][0])
    return a_q @ q, a_v @ v


def alternating(p, path, q, v):
    def attended(name, x, g):
        score = f"{path}.{name}.score"
        hidden = np.tanh(x @ p[f"{score}.key.weight"].T + p[f"{score}.query.weight"] @ g)
        return softmax(hidden @ p[f"{score}.v"]) @ x

    s = softmax(np.tanh(q @ p[f"{path}.start.weight"].T) @ p[f"{path}.alone.query"][0]) @ q
    v_hat = attended("second", v, s)
    return attended("first", q, v_hat), v_hat


def by_hand(p, q, v, attend):
    h = np.zeros(0)
    for n in range(3):
        one, other = attend(p, f"levels.{n}", q[n], v[n])
        joined = np.concatenate([one + other, h])
        h = np.tanh(p[f"answer.{n}.weight"] @ joined + p[f"answer.{n}.bias"])
    return p["output.weight"] @ h + p["output.bias"]


@pytest.mark.parametrize("attend", [parallel, alternating])
def test_it_computes_the_papers_equations(attend):
    net = model(attention=attend.__name__)
    (first, lengths, _), (second, others, _) = ragged(), ragged()
    second, others = second.flip(0)[:, :5], others.flip(0).clamp(max=5)
    p = numbers(net)
    logits = net(first, second, lengths, others).logits.detach().numpy()
    pairs = zip(sentences(first, lengths), sentences(second, others), strict=True)
    for row, (a, b) in enumerate(pairs):
        expected = by_hand(p, text(p, a), text(p, b), attend)
        np.testing.assert_allclose(logits[row], expected, atol=1e-10)


@pytest.mark.parametrize("attend", [parallel, alternating])
def test_regions_of_an_image_are_the_same_at_each_level(attend):
    net = model(attention=attend.__name__, regions=6)
    (first, lengths, _), image = ragged(), torch.randn(3, 5, 6, dtype=torch.float64)
    p = numbers(net)
    counts = torch.tensor([5, 2, 4])
    for given, some in ((image, torch.full((3,), 5)), (Inputs(image, counts), counts)):
        logits = net(first, given, lengths).logits.detach().numpy()
        for row, ids in enumerate(sentences(first, lengths)):
            seen = image[row, : some[row]].numpy()
            v = np.tanh(seen @ p["regions.weight"].T + p["regions.bias"])
            expected = by_hand(p, text(p, ids), [v] * 3, attend)
            np.testing.assert_allclose(logits[row], expected, atol=1e-10)


def test_exchanged_sequences_transpose_the_maps():
    """With W_b transposed and the two halves of the weights exchanged."""
    torch.manual_seed(3)
    net, other = ParallelCoAttention(D, 3).double(), ParallelCoAttention(D, 3).double()
    with torch.no_grad():
        other.affinity.score.product.weight.copy_(net.affinity.score.product.weight.T)
        for one, two in (("query", "value"), ("value", "query")):
            getattr(other, one).weight.copy_(getattr(net, two).weight)
            getattr(other, f"of_{one}").query.copy_(getattr(net, f"of_{two}").query)
    q, v = torch.randn(2, 5, D).double(), torch.randn(2, 4, D).double()
    sizes = torch.tensor([5, 3]), torch.tensor([2, 4])
    with watch(net) as seen, watch(other) as exchanged:
        a, b = net((q, sizes[0]), (v, sizes[1]))
        c, d = other((v, sizes[1]), (q, sizes[0]))
    torch.testing.assert_close(exchanged["affinity"].weights, seen["affinity"].weights.mT)
    torch.testing.assert_close((c, d), (b, a))


def test_wrong_settings_and_inputs_are_refused():
    with pytest.raises(RequestError, match="no attention 'paralel': did you mean 'parallel'"):
        model(attention="paralel")
    ids = torch.ones(2, 3, dtype=torch.int64)
    with pytest.raises(RequestError, match=r"expected regions \(batch, n, 6\), got torch.int64"):
        model(regions=6)(ids, ids)
