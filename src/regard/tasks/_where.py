"""Rows that are read: `data.where`, the same for all splits or of each its own."""

from collections.abc import Mapping
from typing import Any

from regard.data.sources import SPLITS
from regard.errors import RequestError, nearest

__all__ = ["TYPE", "Where", "said", "wanted"]

TYPE = dict[str, str | int | list[str | int] | dict[str, str | int | list[str | int]]]
Where = Mapping[str, Mapping[str, frozenset[str]]]
"""Of each split the columns that choose its rows, with the values of rows that are read."""


def wanted(section: Mapping[str, Any] | None) -> Where:
    """What `data.where` says of each split.

    Args:
        section: of each column a value, several, or a mapping with those of single splits: a split
            that it lacks is read whole.

    Raises:
        RequestError: a mapping names what is no split.

    Example:
        >>> asked = wanted({"speaker": {"train": ["ann", "bob"], "test": "eve"}})
        >>> {split: [*map(sorted, asked[split].values())] for split in asked}
        {'train': [['ann', 'bob']], 'dev': [], 'test': [['eve']]}
    """
    found: dict[str, dict[str, frozenset[str]]] = {split: {} for split in SPLITS}
    for column, told in (section or {}).items():
        each = told if isinstance(told, Mapping) else dict.fromkeys(SPLITS, told)
        for split, one in each.items():
            if split not in found:
                raise RequestError(
                    f"data.where.{column}: no split {split!r}: {nearest(str(split), SPLITS)}"
                )
            found[split][column] = frozenset(map(str, one if isinstance(one, list) else [one]))
    return found


def said(columns: Mapping[str, frozenset[str]]) -> str:
    """The rows that are asked for, in words.

    Example:
        >>> said({"speaker": frozenset({"eve", "bob"})})
        'speaker: bob or eve'
    """
    return " and ".join(f"{column}: {' or '.join(sorted(one))}" for column, one in columns.items())
