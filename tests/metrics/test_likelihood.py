"""Perplexity against the definition, in loops."""

import math

import numpy as np
import pytest

from regard.errors import RequestError
from regard.metrics import bootstrap, paired, perplexity


def test_it_is_the_inverse_geometric_mean_of_the_probabilities():
    draw = np.random.default_rng(1)
    words = draw.integers(1, 9, 40).tolist()
    probabilities = [draw.uniform(0.001, 0.9, n + 1) for n in words]  # a line's words and its end
    product, count = 1.0, 0
    for line in probabilities:
        for p in line:
            product *= (1 / p) ** (1 / sum(n + 1 for n in words))
            count += 1
    score = perplexity([sum(math.log(p) for p in line) for line in probabilities], words, 3)
    assert score.value == pytest.approx(product, rel=1e-10)
    assert score.parts["words"] == count - 40
    assert score.parts["unknown"] == 3
    assert 2 ** score.parts["bits"] == pytest.approx(product)
    assert score.signature.startswith("metric:perplexity|per:word|ends:counted|unknown:one-word|")
    low, high, *_ = bootstrap(score.sums)
    assert low < score.value < high


def test_models_are_compared_line_by_line():
    draw = np.random.default_rng(2)
    words = draw.integers(3, 20, 300)
    worse = -6.0 * (words + 1) + draw.normal(0, 3, 300)
    better = worse + 0.1 * (words + 1)
    one, other = (perplexity(x.tolist(), words.tolist()) for x in (worse, better))
    found = paired(one.sums, other.sums)
    assert found.value == pytest.approx(other.value - one.value)
    assert found.value < 0
    assert found.p < 0.05


def test_a_uniform_model_has_as_many_as_there_are_words_and_an_impossible_text_infinity():
    assert perplexity([-math.log(50) * 4] * 2, [3, 3]).value == pytest.approx(50)
    assert perplexity([-math.inf, -1.0], [3, 3]).value == math.inf
    assert perplexity([-1e9], [3]).value == math.inf


def test_what_cannot_be_scored_is_said():
    with pytest.raises(RequestError, match="expected as many counts of words"):
        perplexity([-1.0], [1, 2])
    with pytest.raises(RequestError, match="there are no examples"):
        perplexity([], [])
