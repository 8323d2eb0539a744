"""Edit distances and longest common subsequences of many pairs of sentences at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["edits_and_common"]

Ints = NDArray[np.int64]


def edits_and_common(first: Sequence[Ints], second: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Of each pair of rows of words, as numbers: a row of all tables at a time."""
    a, b = (_padded(first, -1), _padded(second, -2))
    la, lb = (np.array([len(one) for one in side]) for side in (first, second))
    each, columns = np.arange(len(first)), np.arange(b.shape[1] + 1)
    edits = np.tile(columns, (len(first), 1))
    shared = np.zeros_like(edits)
    distance, common = edits[each, lb], shared[each, lb]
    for i in range(a.shape[1]):
        same = a[:, i, None] == b
        best = edits + 1  # deleted
        np.minimum(best[:, 1:], edits[:, :-1] + ~same, out=best[:, 1:])  # kept or replaced
        edits = np.minimum.accumulate(best - columns, 1) + columns  # inserted, any number
        longer = shared.copy()
        np.maximum(longer[:, 1:], shared[:, :-1] + same, out=longer[:, 1:])
        shared = np.maximum.accumulate(longer, 1)
        ends = la == i + 1
        distance[ends], common[ends] = edits[ends, lb[ends]], shared[ends, lb[ends]]
    return distance, common


def _padded(rows: Sequence[Ints], pad: int) -> Ints:
    found = np.full((len(rows), max(len(row) for row in rows)), pad, np.int64)
    for line, row in zip(found, rows, strict=True):
        line[: len(row)] = row
    return found
