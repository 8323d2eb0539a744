"""Sampling: from the right distribution, the same again, and nobody else's."""

import math
from collections import Counter

import pytest
import torch

from regard.decode import Greedy, Sample
from regard.protocols import EOS
from tests.decode.toy import Fixed, Markov

SOURCES = torch.tensor([[4, 3, 2], [3, 2, 0], [4, 4, 2]])
P = [0, 0, 0.1, 0.2, 0.3, 0.4]


def one_token(read):
    return P if not read else [0, 0, 1.0, 0, 0, 0]


def frequencies(**given):
    (found,) = Sample(n_best=4000, **given)(Fixed(6, one_token), SOURCES[:1])
    counts = Counter(h.tokens[0] for h in found)
    return [counts[token] / 4000 for token in range(6)]


def close(found, expected):
    return all(
        abs(a - b) < 4.5 * math.sqrt(0.25 / 4000) for a, b in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_distribution(temperature):
    weights = [p ** (1 / temperature) for p in P]
    assert close(frequencies(temperature=temperature), [w / sum(weights) for w in weights])


def test_truncation():
    assert close(frequencies(top_k=2), [0, 0, 0, 0, 3 / 7, 4 / 7])
    assert frequencies(top_k=1) == [0, 0, 0, 0, 0, 1]
    # 0.4 + 0.3 is the first to hold 0.6
    assert close(frequencies(top_p=0.6), [0, 0, 0, 0, 3 / 7, 4 / 7])
    assert frequencies(top_p=0.39) == [0, 0, 0, 0, 0, 1]
    assert close(frequencies(top_k=3, top_p=0.99), [0, 0, 0, 2 / 9, 3 / 9, 4 / 9])


def test_low_temperature_is_greedy():
    model = Markov(8, seed=3)
    cold = Sample(temperature=1e-4)(model, SOURCES)
    assert [h[0].tokens for h in cold] == [h[0].tokens for h in Greedy()(model, SOURCES)]


def test_seeds():
    model = Markov(8, seed=3, sharp=0.3)
    first = Sample(n_best=4)(model, SOURCES)
    torch.manual_seed(123)
    again = Sample(n_best=4)(model, SOURCES)
    other = Sample(n_best=4, seed=2)(model, SOURCES)
    assert [[h.tokens for h in hs] for hs in first] == [[h.tokens for h in hs] for hs in again]
    assert [[h.tokens for h in hs] for hs in first] != [[h.tokens for h in hs] for hs in other]
    assert len({tuple(h.tokens) for h in first[0]}) > 1
    more = Sample(n_best=6)(model, SOURCES)
    for few, many in zip(first, more, strict=True):
        assert {tuple(h.tokens) for h in few} <= {tuple(h.tokens) for h in many}


def test_best_first_and_ended_before_cut():
    found = Sample(n_best=20, max_length=3)(Markov(5, seed=1, sharp=0.3), SOURCES)
    for hypotheses in found:
        keys = [(not h.finished, -h.score) for h in hypotheses]
        assert keys == sorted(keys)
        assert {h.tokens[-1] == EOS for h in hypotheses} == {True, False}
