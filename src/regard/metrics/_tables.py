"""Precision, recall and F1 of counts, in all and of each label."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.metrics.interval import bootstrap
from regard.metrics.score import Score, Sums

__all__ = ["Counts", "f1", "precision", "rates", "recall", "scored"]

Counts = tuple[int, int, int]
"""How many are right, too many (said, not right), and missed."""


def precision(sums: np.ndarray) -> np.ndarray:
    """Right of those said, in percent; columns are right, too many, missed, …"""
    return _share(sums[..., 0], sums[..., 0] + sums[..., 1])


def recall(sums: np.ndarray) -> np.ndarray:
    """Right of those there are, in percent."""
    return _share(sums[..., 0], sums[..., 0] + sums[..., 2])


def f1(sums: np.ndarray) -> np.ndarray:
    """2PR / (P + R) = 2 right / (said + there), in percent; 0 where nothing is right."""
    return _share(2 * sums[..., 0], 2 * sums[..., 0] + sums[..., 1] + sums[..., 2])


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.asarray(100 * part / np.where(whole == 0, 1, whole))


def rates(counts: Mapping[str, Counts]) -> dict[str, dict[str, float]]:
    """The line of each label, in the order of the alphabet."""
    return {
        label: {
            "right": (row := np.array(counts[label]))[0].item(),
            "excess": row[1].item(),
            "missed": row[2].item(),
            "precision": float(precision(row)),
            "recall": float(recall(row)),
            "f1": float(f1(row)),
        }
        for label in sorted(counts)
    }


def scored(name: str, sums: Sums, signature: str, parts: Mapping[str, Any], samples: int) -> Score:
    """The score of sums, with a bootstrap interval where samples are asked for."""
    more = {"interval": bootstrap(sums, samples=samples)} if samples > 1 else {}
    return Score(name, float(sums.of(sums.counts.sum(0))), signature, {**parts, **more}, sums)
