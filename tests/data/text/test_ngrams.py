"""Witten-Bell by hand."""

import math

import pytest

from regard.data.text.ngrams import NGrams


def test_a_distribution():
    model = NGrams([["a", "b", "a", "b"], ["a", "c"]], order=3)
    words = ["a", "b", "c", "\n"]
    for history in ([], ["a"], ["b", "a"], ["x", "y"]):
        seen = sum(model.probability(w, history) for w in words)
        assert seen + model.probability("never", history) == pytest.approx(1)


def test_by_hand():
    model = NGrams([["a", "b"]], order=2)  # seen: a, b and the end, each once; 4 with the unseen
    once = (1 + 3 / 4) / (3 + 3)
    assert model.probability("b", []) == pytest.approx(once)
    assert model.probability("b", ["a"]) == pytest.approx((1 + once) / (1 + 1))
    assert model.probability("b", ["z"]) == pytest.approx(once)
    expected = math.log(model.probability("b", ["a"])) + math.log(model.probability("\n", ["b"]))
    assert model.around(["a", "b"], 1) == pytest.approx(expected)


def test_what_differs_is_what_is_compared():
    model = NGrams([["the", "dog", "ran"], ["the", "cat", "sat"], ["a", "dog", "ran"]], order=3)
    around = {w: model.around(["the", w, "ran", "far", "away"], 1) for w in ("dog", "cat")}

    def whole(sentence):
        words = ["\n", "\n", *sentence, "\n"]
        return sum(math.log(model.probability(words[i], words[:i])) for i in range(2, len(words)))

    wholes = {w: whole(["the", w, "ran", "far", "away"]) for w in ("dog", "cat")}
    assert around["dog"] - around["cat"] == pytest.approx(wholes["dog"] - wholes["cat"])
    assert around["dog"] > around["cat"]
