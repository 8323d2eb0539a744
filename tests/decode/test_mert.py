"""Minimum error rate training: the line search against trying every place, tuning on toys."""

import itertools

import numpy as np
import pytest

from regard.decode.mert import best_on_line, rounds, tune
from regard.errors import RequestError


def lists(seed, sources=6, most=7, features=3):
    """Features of whole numbers, so that many lines cross in one place."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, most, sources)
    return (
        [generator.integers(-3, 4, (n, features)).astype(float) for n in sizes],
        [generator.integers(0, 10, n).astype(float) for n in sizes],
    )


def chosen(features, quality, weights):
    """The mean quality of the best hypotheses, one list after the other."""
    return np.mean(
        [good[int(np.argmax(own @ weights))] for own, good in zip(features, quality, strict=True)]
    )


def padded(features, quality, weights, direction):
    wide = max(map(len, quality))
    heights, slopes, good = (
        np.full((len(quality), wide), -np.inf),
        *np.zeros((2, len(quality), wide)),
    )
    for row, own in enumerate(features):
        heights[row, : len(own)], slopes[row, : len(own)] = own @ weights, own @ direction
        good[row, : len(own)] = quality[row]
    return heights, slopes, good


@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (-0.4, 1.3), (-np.inf, 0.0), (0.0, 2.0)])
@pytest.mark.parametrize("seed", range(12))
def test_the_line_search_is_as_good_as_every_place(seed, bounds):
    features, quality = lists(seed)
    generator = np.random.default_rng(seed + 100)
    weights, direction = generator.normal(size=(2, 3))
    line = best_on_line(*padded(features, quality, weights, direction), bounds)
    assert bounds[0] <= line.place <= bounds[1]
    at = chosen(features, quality, weights + line.place * direction)
    assert at == pytest.approx(line.value)
    crossings = []
    for own in features:
        for one, two in itertools.combinations(own, 2):
            if slope := (two - one) @ direction:
                crossings.append((one - two) @ weights / slope)
    inside = sorted({c for c in crossings if bounds[0] < c < bounds[1]})
    ends = [max(bounds[0], -1e6), *inside, min(bounds[1], 1e6)]
    middles = [(a + b) / 2 for a, b in itertools.pairwise(ends) if b - a > 1e-9]
    best = max(chosen(features, quality, weights + m * direction) for m in middles)
    assert line.value == pytest.approx(best)


@pytest.mark.parametrize("seed", range(4))
def test_tuning_is_about_as_good_as_a_fine_grid(seed):
    features, quality = lists(seed, sources=8)
    start = [1.0, 0.0, 0.0]
    weights, value = tune(features, quality, start, fixed=[0], restarts=12)
    assert weights[0] == 1.0
    assert value == pytest.approx(chosen(features, quality, np.array(weights)))
    assert value >= chosen(features, quality, np.array(start))
    steps = np.linspace(-4.03, 4.01, 60)
    grid = max(chosen(features, quality, np.array([1.0, a, b])) for a in steps for b in steps)
    assert value >= grid - 1e-9


def test_bounds_and_fixed_weights_hold():
    features, quality = lists(5, sources=12, features=4)
    weights, _ = tune(
        features, quality, [1.0, 0.2, -0.1, 0.3], fixed=[0, 3], bounds={2: (-0.5, 0.0)}
    )
    assert weights[0] == 1.0
    assert weights[3] == 0.3
    assert -0.5 <= weights[2] <= 0.0


def test_what_is_found_is_the_same_each_time():
    features, quality = lists(6)
    found = [tune(features, quality, [1.0, 0.0, 0.0], fixed=[0], seed=3) for _ in range(2)]
    assert found[0] == found[1]


def test_rounds_keep_the_weights_whose_own_decoding_was_best():
    """Hypotheses of one feature from -5 to 5; good are those near 2, found with a weight near 2."""
    asked = []

    def decode(weights):
        asked.append(weights)
        about = np.clip(np.round(weights[1]), -4, 4)
        own = np.stack([-((np.array([about, about + 1.0])) ** 2) / 2, [about, about + 1.0]], 1)
        own = own[(-own @ weights).argsort(kind="stable")]
        return [own], [-np.abs(own[:, 1] - 2.0)]

    weights, reached = rounds(decode, [1.0, -3.0], most=8, fixed=[0])
    assert reached[0] == -5.0
    assert max(reached) == 0.0
    assert -np.abs(decode(weights)[0][0][0, 1] - 2.0) == max(reached)
    assert len(asked) <= 9


def test_lists_that_do_not_fit():
    with pytest.raises(RequestError, match="the same sources, one or more, got 0 and 0"):
        tune([], [], [1.0])
    with pytest.raises(RequestError, match=r"source 0: expected features \(2, 1\)"):
        tune([np.zeros((3, 1))], [np.zeros(2)], [1.0])
