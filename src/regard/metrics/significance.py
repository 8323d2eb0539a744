"""Bootstrap confidence intervals of scores and of differences between two systems."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from regard.errors import RequestError
from regard.metrics.score import Sums

__all__ = ["Difference", "Interval", "bootstrap", "holm", "paired"]

AT_ONCE = 64
"""Samples drawn together: samples times examples integers would be large."""


class Interval(NamedTuple):
    """A confidence interval at `level` percent."""

    low: float
    high: float
    level: float
    samples: int


class Difference(NamedTuple):
    """The difference of two systems (second minus first), and its significance.

    Args:
        interval: of the difference, by the paired bootstrap.
        p: the p-value by approximate randomization.
    """

    value: float
    interval: Interval
    p: float


def bootstrap(sums: Sums, *, samples: int = 1000, level: float = 95.0, seed: int = 1) -> Interval:
    """The interval of a score that is a function of sums over examples.

    `samples` times, as many examples as there are are drawn with replacement. The interval is
    between the (100 - level)/2-th and the (100 + level)/2-th percentile of their scores.

    Args:
        sums: the score as sums over examples.
        samples: the number of bootstrap samples.
        level: the confidence level in percent.
        seed: the same seed gives the same interval.

    Source: Efron (1979); for translation Koehn (2004), "Statistical significance tests for machine
    translation evaluation".
    """
    drawn = [times @ sums.counts for times in _drawn(len(sums.counts), samples, seed)]
    return _between(sums.of(np.concatenate(drawn)), level, samples)


def paired(
    first: Sums, second: Sums, *, samples: int = 1000, level: float = 95.0, seed: int = 1
) -> Difference:
    """Compare two systems on the same examples: second minus first.

    The interval is from the paired bootstrap, with the same examples for both systems. p is from
    approximate randomization: outputs are randomly exchanged between the systems, and p is
    (1 + number of differences at least as large as the observed one) / (1 + samples).

    Raises:
        RequestError: for different numbers of examples.

    Source: Koehn (2004); Riezler and Maxwell (2005), "On some pitfalls in automatic evaluation and
    significance testing for MT".
    """
    number = len(first.counts)
    if number != len(second.counts) or not number:
        raise RequestError(
            f"expected two systems with outputs for the same examples, got {number} and "
            f"{len(second.counts)}"
        )
    drawn = _drawn(number, samples, seed)
    pairs = [(times @ first.counts, times @ second.counts) for times in drawn]
    moved = np.concatenate([second.of(b) - first.of(a) for a, b in pairs])
    value = float(second.of(second.counts.sum(0)) - first.of(first.counts.sum(0)))
    draw, as_large = np.random.default_rng(seed), 0
    total, gap = first.counts.sum(0), second.counts - first.counts
    for start in range(0, samples, AT_ONCE):
        swapped = draw.integers(0, 2, (min(AT_ONCE, samples - start), number)) @ gap
        other = second.of(second.counts.sum(0) - swapped) - first.of(total + swapped)
        as_large += int((np.abs(other) >= abs(value) - 1e-12).sum())
    return Difference(value, _between(moved, level, samples), (1 + as_large) / (1 + samples))


def holm(ps: Sequence[float]) -> list[float]:
    r"""p-values of several comparisons, corrected so that *any* false finding has its level.

    Sorted from the smallest, the i-th of m p-values is multiplied by m - i + 1; none is smaller
    than the one before it, and none above 1.

    Source: Holm (1979), "A simple sequentially rejective multiple test procedure".

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    corrected, before = [0.0] * len(ps), 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=lambda place: ps[place])):
        before = max(before, min(1.0, (len(ps) - rank) * ps[place]))
        corrected[place] = before
    return corrected


def _drawn(number: int, samples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each example is drawn, for a few samples at a time."""
    draw, even = np.random.default_rng(seed), np.full(number, 1 / number)
    for start in range(0, samples, AT_ONCE):
        yield draw.multinomial(number, even, size=min(AT_ONCE, samples - start))


def _between(scores: np.ndarray, level: float, samples: int) -> Interval:
    low, high = np.percentile(scores, [(100 - level) / 2, (100 + level) / 2])
    return Interval(float(low), float(high), level, samples)
