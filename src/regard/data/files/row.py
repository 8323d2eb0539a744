"""A row as every reader of a format gives it."""

from dataclasses import dataclass
from typing import Any

__all__ = ["Column", "Row", "column_of"]


Column = str | int
"""The name of a column, or its number counted from 1."""


@dataclass(frozen=True, slots=True)
class Row:
    """One example as read.

    Args:
        fields: of each field its cell: a text, or a list of texts where the file has one and the
            field takes lists.
        file: where it stands.
        line: counted from 1.
    """

    fields: dict[str, Any]
    file: str
    line: int


def column_of(told: str) -> Column:
    """A column as it is written where all is text: digits are a number.

    Example:
        >>> column_of("2"), column_of("target")
        (2, 'target')
    """
    return int(told) if told.isdecimal() else told
