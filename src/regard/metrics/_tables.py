"""Precision, recall and F1 of counts, in all and of each label."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.metrics.score import Score, Sums
from regard.metrics.significance import bootstrap

__all__ = ["Counts", "Span", "f1", "joined_spans", "precision", "rates", "recall", "scored"]

Span = tuple[int, int, str]
"""The first word, the word behind the last, and the label."""

Counts = tuple[int, int, int]
"""How many are right, too many (said, not right), and missed."""


def joined_spans(tags: Sequence[str]) -> list[Span]:
    """The spans of tags of IOB1, IOB2 or IOBES, valid or not, by the rule of conlleval."""
    spans: list[Span] = []
    start, letter, label = -1, "O", ""
    for place, tag in enumerate([*tags, "O"]):
        own, _, name = tag.partition("-")
        new = own in ("B", "S") or letter in ("O", "E", "S") or name != label
        if start >= 0 and (own == "O" or new):
            spans.append((start, place, label))
            start = -1
        if own != "O" and new:
            start = place
        letter, label = own, name
    return spans


def precision(sums: np.ndarray) -> np.ndarray:
    """Right of those said, in percent; columns are right, too many, missed and others."""
    return np.asarray(100 * sums[..., 0] / np.maximum(sums[..., 0] + sums[..., 1], 1))


def recall(sums: np.ndarray) -> np.ndarray:
    """Right of those there are, in percent."""
    return np.asarray(100 * sums[..., 0] / np.maximum(sums[..., 0] + sums[..., 2], 1))


def f1(sums: np.ndarray) -> np.ndarray:
    """2PR / (P + R) = 2 right / (said + there), in percent; 0 where nothing is right."""
    both = 2 * sums[..., 0] + sums[..., 1] + sums[..., 2]
    return np.asarray(200 * sums[..., 0] / np.maximum(both, 1))


def rates(counts: Mapping[str, Counts]) -> dict[str, dict[str, int | float]]:
    """The line of each label, in the order of the alphabet."""
    labels = sorted(counts)
    table = np.array([counts[label] for label in labels], np.int64).reshape(-1, 3)
    columns = dict(zip(("right", "excess", "missed"), table.T.tolist(), strict=True))
    columns |= {of.__name__: of(table).tolist() for of in (precision, recall, f1)}
    return {label: {n: c[at] for n, c in columns.items()} for at, label in enumerate(labels)}


def scored(name: str, sums: Sums, signature: str, parts: Mapping[str, Any], samples: int) -> Score:
    """The score of sums, with a bootstrap interval where samples are asked for."""
    more = {"interval": bootstrap(sums, samples=samples)} if samples > 1 else {}
    return Score(name, float(sums.of(sums.counts.sum(0))), signature, {**parts, **more}, sums)
