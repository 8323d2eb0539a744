r"""Scores of numbers: correlation with the references, and the mean squared error.

.. math::
    r = \frac{\sum_n (x_n - \bar x)(y_n - \bar y)}
             {\sqrt{\sum_n (x_n - \bar x)^2 \, \sum_n (y_n - \bar y)^2}}, \qquad
    \text{MSE} = \frac{1}{N} \sum_n (x_n - y_n)^2

Spearman's correlation is Pearson's of the ranks; equal numbers share the mean of their ranks.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.metrics.score import Numbers, Score, Sums, numbers, same_number, signature

__all__ = ["mean_squared_error", "pearson", "spearman"]

_TINY = 1e-13
"""A variance this small beside the mean square is what rounding leaves of a constant."""


def pearson(outputs: Numbers, references: Numbers) -> Score:
    """Pearson's correlation, times 100.

    0 if the outputs or the references are constant; `parts["note"]` says so.

    Raises:
        RequestError: nothing to score, unequal numbers, or a number that is not finite.

    Example:
        >>> round(pearson([1.0, 2.0, 4.0], [1.0, 3.0, 4.0]).value, 2)
        92.86
    """
    x, y = _checked(outputs, references)
    # About the references' mean on both sides: it is the same for every system that is compared,
    # so that the sums of two systems can be exchanged.
    shift = y.mean()
    a, b = x - shift, y - shift
    counts = np.stack([np.ones(len(x)), a, b, a * a, b * b, a * b], 1)
    value, parts = _correlation(x, y)
    return Score("pearson", value, signature(metric="pearson"), parts, Sums(counts, _of))


def spearman(outputs: Numbers, references: Numbers) -> Score:
    """Spearman's rank correlation, times 100; equal numbers share the mean of their ranks.

    0 if the outputs or the references are constant; `parts["note"]` says so. Ranks depend on all
    examples, so there are no sums.

    Raises:
        RequestError: nothing to score, unequal numbers, or a number that is not finite.

    Example:
        >>> round(spearman([1.0, 2.0, 40.0], [1.0, 3.0, 4.0]).value, 9)
        100.0
    """
    x, y = _checked(outputs, references)
    value, parts = _correlation(_ranks(x), _ranks(y))
    return Score("spearman", value, signature(metric="spearman", ties="mean-rank"), parts)


def mean_squared_error(outputs: Numbers, references: Numbers) -> Score:
    """The mean squared difference, in the references' own unit squared; less is better.

    Raises:
        RequestError: nothing to score, unequal numbers, or a number that is not finite.

    Example:
        >>> mean_squared_error([1.0, 2.0], [1.0, 4.0]).value
        2.0
    """
    x, y = _checked(outputs, references)
    counts = np.stack([(x - y) ** 2, np.ones(len(x))], 1)
    marks = signature(metric="mean_squared_error")
    value = float(_ratio(counts.sum(0)))
    return Score("mean_squared_error", value, marks, {"examples": len(x)}, Sums(counts, _ratio))


def _checked(
    outputs: Numbers, references: Numbers
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    same_number(outputs, references)
    return numbers("the output", outputs), numbers("the reference", references)


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, dict[str, Any]]:
    """100 r in two passes, and the parts."""
    parts: dict[str, Any] = {"examples": len(x)}
    constant = [name for name, of in (("outputs", x), ("references", y)) if np.ptp(of) == 0]
    if constant:
        parts["note"] = f"constant {' and '.join(constant)}: no correlation is defined"
        return 0.0, parts
    a, b = x - x.mean(), y - y.mean()
    r = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    return float(100 * np.clip(r, -1, 1)), parts


def _of(sums: NDArray[Any]) -> NDArray[np.float64]:
    """100 r of sums (..., 6): n, x, y, x², y², x y."""
    n, sx, sy, sxx, syy, sxy = np.moveaxis(np.asarray(sums, np.float64), -1, 0)
    both, x, y = sxy - sx * sy / n, sxx - sx * sx / n, syy - sy * sy / n
    varies = (x > _TINY * sxx) & (y > _TINY * syy)
    below = np.sqrt(np.where(varies, x, 1.0)) * np.sqrt(np.where(varies, y, 1.0))
    return np.asarray(100 * np.clip(np.where(varies, both, 0.0) / below, -1, 1))


def _ratio(sums: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(sums[..., 0] / sums[..., 1])


def _ranks(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rank of each number from 1; of equal numbers the mean of theirs."""
    _, which, times = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    ranks: NDArray[np.float64] = (last - (times - 1) / 2)[which.reshape(-1)]
    return ranks
