"""From the logits of one example to its label, with the others as runners-up."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.runtime.operators import softmax

__all__ = ["LEAST", "MOST", "ranked_labels", "softmax_of"]

LEAST = 1e-30
"""The least probability whose logarithm is taken."""
MOST = 20
"""How many labels are told of."""


def ranked_labels(probabilities: Sequence[float], names: Sequence[str]) -> list[tuple[str, float]]:
    """The likeliest labels, each with the logarithm of its probability.

    Example:
        >>> [(name, round(score, 2)) for name, score in ranked_labels([0.2, 0.8], ["bad", "good"])]
        [('good', -0.22), ('bad', -1.61)]
    """
    order = sorted(range(len(probabilities)), key=lambda i: -probabilities[i])
    return [(names[i], math.log(max(probabilities[i], LEAST))) for i in order[:MOST]]


def softmax_of(logits: NDArray[np.float32], temperature: float) -> list[float]:
    """Calibrated probabilities of the classes of one example, in float64."""
    found: list[float] = softmax(logits.astype(np.float64) / temperature).tolist()
    return found
