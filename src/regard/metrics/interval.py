"""How sure a score is: a percentile bootstrap over examples."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["Interval", "bootstrap"]


class Interval(NamedTuple):
    """Where a score of as many other examples would fall, `level` times in a hundred."""

    low: float
    high: float
    level: float
    samples: int


def bootstrap(
    counts: np.ndarray,
    score: Callable[[np.ndarray], np.ndarray],
    *,
    samples: int = 1000,
    level: float = 95.0,
    seed: int = 1,
) -> Interval:
    """The interval of a score that is a function of sums over examples.

    Examples are drawn with replacement `samples` times, as many as there are; the interval lies
    between the (100 - level)/2-th and the (100 + level)/2-th percentile of the scores so made.

    Args:
        counts: what each example adds: (example, count).
        score: from sums (..., count) to scores (...).
        samples: how many times.
        level: in percent.
        seed: the same seed gives the same interval.

    Source: Efron (1979); for translation Koehn (2004), "Statistical significance tests for machine
    translation evaluation".
    """
    number = len(counts)
    draw = np.random.default_rng(seed)
    even = np.full(number, 1 / number)
    # How often each example is drawn is all that matters, and that is multinomial. A few at a time:
    # samples × examples integers would be large.
    sums = np.concatenate(
        [
            draw.multinomial(number, even, size=min(64, samples - start)) @ counts
            for start in range(0, samples, 64)
        ]
    )
    low, high = np.percentile(score(sums), [(100 - level) / 2, (100 + level) / 2])
    return Interval(float(low), float(high), level, samples)
