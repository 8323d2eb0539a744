"""The probability above which a relation is reported."""

import numpy as np

__all__ = ["best_threshold"]


def best_threshold(scores: np.ndarray, right: np.ndarray, true: int) -> float:
    """The threshold with the greatest F1, in the middle between two scores.

    Args:
        scores: one for each candidate; it is reported where its score reaches the threshold.
        right: whether each candidate is true.
        true: how many true relations there are.
    """
    if not len(scores) or not right.any():
        return 0.5
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(right[order])
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + true)
    f1[:-1][ranked[:-1] == ranked[1:]] = -1.0  # equal scores go together
    at = int(f1.argmax())
    below = ranked[at + 1] if at + 1 < len(ranked) else 0.0
    return round(float((ranked[at] + below) / 2), 6)
