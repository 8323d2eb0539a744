"""Word-by-word attention against its equations in NumPy."""

import numpy as np
import pytest
import torch

from regard import watch
from regard.errors import RequestError
from regard.models.word_by_word import WordByWord
from tests.models.slow import count, numbers, ragged, sentences, shaken, sigmoid, softmax

K = 4
PAIRS = [("none", False), ("final", False), ("word-by-word", False), ("word-by-word", True)]


def model(**changes):
    torch.manual_seed(1)
    return shaken(WordByWord(12, 3, **{"embed": 5, "hidden": K, "dropout": 0.0, **changes}))


def lstm(p, path, xs, c):
    b = p[f"{path}.stack.bias_ih_l0"] + p[f"{path}.stack.bias_hh_l0"]
    h, states = np.zeros(K), []
    for x in xs:
        gates = p[f"{path}.stack.weight_ih_l0"] @ x + p[f"{path}.stack.weight_hh_l0"] @ h + b
        i, f, g, o = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return states, c


def paired(p, attention, first, second):
    """h* and the weights of each step."""
    a, b = (
        [p["project.weight"] @ p["embed.weight"][i] + p["project.bias"] for i in ids]
        for ids in (first, second)
    )
    y, cells = lstm(p, "premise", a, np.zeros(K))
    h, _ = lstm(p, "hypothesis" if "hypothesis.stack.weight_ih_l0" in p else "premise", b, cells)
    if attention == "none":
        return h[-1], []
    query, key = p["attention.premise.score.query.weight"], p["attention.premise.score.key.weight"]
    v = p["attention.premise.score.v"]
    r, alphas = np.zeros(K), []
    for state in h[-1:] if attention == "final" else h:
        shown = query[:, :K] @ state
        if attention == "word-by-word":
            shown = shown + query[:, K:] @ r
        alpha = softmax(np.array([v @ np.tanh(key @ word + shown) for word in y]))
        old, r = r, sum(w * word for w, word in zip(alpha, y, strict=True))
        if attention == "word-by-word":
            r = r + np.tanh(p["attention.carry.weight"] @ old)
        alphas.append(alpha)
    return np.tanh(p["attention.read.weight"] @ r + p["attention.state.weight"] @ h[-1]), alphas


@pytest.mark.parametrize(("attention", "two_way"), PAIRS)
def test_it_computes_the_papers_equations(attention, two_way):
    net = model(attention=attention, two_way=two_way, shared=attention == "final")
    (first, lengths, _), (second, others, _) = ragged(), ragged()
    second, others = second.flip(0)[:, :5], others.flip(0).clamp(max=5)
    p = numbers(net)
    with watch(net) as seen:
        logits = net(first, second, lengths, others).logits
    pairs = zip(sentences(first, lengths), sentences(second, others), strict=True)
    for row, (a, b) in enumerate(pairs):
        h, alphas = paired(p, attention, a, b)
        if two_way:
            h = np.concatenate([h, paired(p, attention, b, a)[0]])
        expected = p["head.output.weight"] @ h + p["head.output.bias"]
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, atol=1e-10)
        if attention != "none":
            steps = seen["attention.premise"].steps
            for found, alpha in zip(steps, alphas, strict=False):
                np.testing.assert_allclose(found[row, 0, : len(a)].detach(), alpha, atol=1e-12)
            if attention == "word-by-word" and not two_way:
                assert not any(step[row].any() for step in steps[len(b) :])


@pytest.mark.parametrize(
    ("given", "known", "lstms"),
    [
        ({"attention": "none", "shared": True}, 110_803, 1),
        ({"attention": "none", "hidden": 116}, 251_491, 2),
        ({"attention": "word-by-word"}, 251_303, 2),
    ],
)
def test_the_papers_counts(given, known, lstms):
    """111 and 252 thousand; derived with one bias vector a gate."""
    second_biases = lstms * 4 * given.get("hidden", 100)
    assert count(WordByWord, 20, 3, **given) == known + second_biases + 20 * 300


def test_two_ways_have_the_same_weights():
    assert count(WordByWord, 20, 3, two_way=True) == count(WordByWord, 20, 3) + 3 * 100


def test_the_hypothesis_is_read_knowing_the_premise():
    """Without an attention too: the cells start where the premise's ended."""
    net = model(attention="none")
    hypothesis = torch.tensor([[7, 8]]).expand(2, -1)
    one, other = net(torch.tensor([[4, 5], [5, 4]]), hypothesis).logits
    assert not torch.allclose(one, other, atol=1e-6)


def test_wrong_settings_are_refused():
    with pytest.raises(RequestError, match="no attention 'word': did you mean 'word-by-word'"):
        model(attention="word")
