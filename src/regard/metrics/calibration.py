r"""How far a model's confidence can be believed, and the temperature that corrects it.

.. math::
    \text{ECE} = \sum_m \frac{|B_m|}{N} \,\big|\text{acc}(B_m) - \text{conf}(B_m)\big|, \qquad
    \hat q = \max_k\, \text{softmax}(z / T)_k

Bin m holds the examples with a confidence in ((m - 1)/M, m/M]; T minimizes the negative
log-likelihood of the development set.

Source: Guo, Pleiss, Sun and Weinberger (2017), "On Calibration of Modern Neural Networks",
sections 2 and 4.2.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from regard.errors import RequestError
from regard.metrics.score import Flags, Numbers, Score, Sums, numbers, same_number, signature

__all__ = ["ReliabilityBin", "expected_calibration_error", "fit_temperature", "reliability"]

HOTTEST = 100.0
"""The temperature is sought between 1 / this and this."""


class ReliabilityBin(NamedTuple):
    """Examples with similar confidence: mean confidence and accuracy from 0 to 1, and how many.

    All three are 0 in a bin without examples.
    """

    confidence: float
    accuracy: float
    examples: int


def expected_calibration_error(confidences: Numbers, right: Flags, bins: int = 15) -> Score:
    """The mean distance between confidence and accuracy over bins of confidence, in percent.

    `parts["bins"]` are those of the reliability diagram that have examples, each with its mean
    `confidence` and its `accuracy` from 0 to 1 and its number of `examples`.

    Args:
        confidences: the probability of each output, from 0 to 1.
        right: whether each output is right.
        bins: how many, of equal width.

    Raises:
        RequestError: nothing to score, unequal numbers, no bins, or a confidence outside [0, 1].

    Example:
        >>> round(expected_calibration_error([0.9, 0.9, 0.6], [True, False, True], 5).value, 2)
        40.0
    """
    confident, correct, which = _binned(confidences, right, bins)
    counts = np.zeros((len(confident), bins + 1))  # confidence minus right in its bin, 1
    counts[np.arange(len(confident)), which] = confident - correct
    counts[:, -1] = 1
    parts: dict[str, Any] = {
        "confidence": float(100 * confident.mean()),
        "accuracy": float(100 * correct.mean()),
        "examples": len(confident),
        "bins": [one._asdict() for one in reliability(confidences, right, bins) if one.examples],
    }
    marks = signature(metric="ece", bins=bins, widths="equal")
    return Score("ece", float(_error(counts.sum(0))), marks, parts, Sums(counts, _error))


def reliability(confidences: Numbers, right: Flags, bins: int = 15) -> list[ReliabilityBin]:
    """The bins of a reliability diagram, from low confidence to high; empty ones are zeros.

    Raises:
        RequestError: as `expected_calibration_error`.

    Example:
        >>> reliability([0.75, 0.75, 0.25], [True, False, True], bins=2)[1]
        ReliabilityBin(confidence=0.75, accuracy=0.5, examples=2)
    """
    confident, correct, which = _binned(confidences, right, bins)
    count = np.bincount(which, minlength=bins)
    mean, accuracy = (
        np.bincount(which, weights=of, minlength=bins) / np.maximum(count, 1)
        for of in (confident, correct)
    )
    return [
        ReliabilityBin(*row)
        for row in zip(mean.tolist(), accuracy.tolist(), count.tolist(), strict=True)
    ]


def fit_temperature(
    logits: Float[np.ndarray, "examples classes"], labels: Int[np.ndarray, " examples"]
) -> float:
    r"""The temperature T that minimizes the negative log-likelihood of `labels`.

    .. math:: -\sum_n \log \text{softmax}(z_n / T)_{y_n}

    The negative log-likelihood is convex in 1/T, so the sign of its derivative says on which side
    of T the minimum is; log T is found by bisection between log 1/100 and log 100. A set without
    an error has its minimum at T = 0, and gives 1/100. Logits without differences give 1.

    Args:
        logits: of the development set; minus infinity for a class that cannot be.
        labels: the right classes; examples with a label below 0 are left out.

    Raises:
        RequestError: no example has a label, a label is no class, or a logit is not a number.

    Example:
        >>> round(fit_temperature(np.log([[0.9, 0.1]] * 4), np.array([0, 0, 0, 1])), 6)
        2.0
    """
    kept = labels >= 0
    z, y = np.asarray(logits, np.float64)[kept], labels[kept]
    if not len(y):
        raise RequestError("no temperature can be fitted: no example has a label")
    if y.max() >= z.shape[1]:
        raise RequestError(f"expected labels below {z.shape[1]}, the classes, got {y.max()}")
    top = z.max(1, keepdims=True)
    if not np.isfinite(top).all() or np.isnan(z).any():
        raise RequestError("no temperature can be fitted: a logit is not a number or is infinite")
    z = z - top
    at_label = z[np.arange(len(y)), y]

    def slope(log_t: float) -> float:
        """The derivative of the mean negative log-likelihood with respect to 1 / T."""
        p = np.exp(z * np.exp(-log_t))
        weighed = np.multiply(p, z, out=np.zeros_like(z), where=p > 0)
        return float((weighed.sum(1) / p.sum(1) - at_label).mean())

    if not slope(0.0):
        return 1.0
    low, high = -np.log(HOTTEST), np.log(HOTTEST)
    while high - low > 1e-12:
        middle = (low + high) / 2
        # Growing with 1 / T: the minimum is at a higher temperature.
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return float(np.exp((low + high) / 2))


def _binned(
    confidences: Numbers, right: Flags, bins: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    """Confidences, 1 where right, and bins, each (n,)."""
    same_number(confidences, right, "judgments")
    if bins < 1:
        raise RequestError(f"expected at least one bin, got {bins}")
    found = numbers("the confidence", confidences)
    outside = np.flatnonzero((found < 0) | (found > 1 + 1e-6))  # a softmax in float32 may exceed 1
    if len(outside):
        raise RequestError(
            f"expected confidences from 0 to 1, got {found[outside[0]]} in example {outside[0] + 1}"
        )
    which = np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], found, side="left")
    return found, np.asarray(right, bool).astype(np.float64), which


def _error(sums: NDArray[Any]) -> NDArray[np.float64]:
    """ECE in percent of sums (..., bins + 1)."""
    return np.asarray(100 * np.abs(sums[..., :-1]).sum(-1) / sums[..., -1])
