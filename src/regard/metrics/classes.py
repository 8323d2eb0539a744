"""Accuracy."""

from collections.abc import Sequence

import numpy as np

from regard.errors import RequestError
from regard.metrics.score import Score, Sums, signature

__all__ = ["accuracy"]


def accuracy(outputs: Sequence[str], references: Sequence[str]) -> Score:
    """The share of outputs that equal the reference, in percent.

    Raises:
        RequestError: nothing to score, or unequal numbers.

    Example:
        >>> accuracy(["a", "b", "b"], ["a", "b", "c"]).parts
        {'right': 2, 'total': 3}
    """
    if len(outputs) != len(references):
        raise RequestError(
            f"expected as many references as outputs, got {len(references)} and {len(outputs)}"
        )
    if not outputs:
        raise RequestError("nothing to score: there are no examples")
    each = np.array([a == b for a, b in zip(outputs, references, strict=True)])
    right = int(each.sum())
    return Score(
        "accuracy", 100 * right / len(outputs), signature(metric="accuracy"),
        {"right": right, "total": len(outputs)}, Sums.percent(each),
    )  # fmt: skip
