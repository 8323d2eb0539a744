"""Examples that two splits share."""

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.datasets.statistics import LABELS, Split


def _leaks(found: Mapping[str, Split]) -> list[dict[str, Any]]:
    """How many rows of a later split are in an earlier one: whole, and by single columns."""
    leaks = []
    names = list(found)
    for i, later in enumerate(names):
        for earlier in names[:i]:
            if later.partition(" ")[0] != earlier.partition(" ")[0] and " " in later:
                continue  # another task of bAbI
            a, b = found[earlier], found[later]
            shared = {"row": _shared(a.rows, b.rows)}
            for name, column in b.columns.items():
                if name in a.columns and column.distinct >= LABELS * len(b.rows):
                    shared[name] = _shared(a.columns[name].hashes, column.hashes)
            leaks.append({"of": later, "in": earlier, "rows": len(b.rows), "shared": shared})
    return leaks


def _shared(earlier: array, later: array) -> int:  # type: ignore[type-arg]
    return int(np.isin(later, earlier).sum())
