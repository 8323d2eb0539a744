"""Checks that readers of formats share."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from regard.data.files.row import Column
from regard.errors import RequestError, nearest

__all__ = ["check_columns", "one_file", "whole_number"]


def one_file(path: str | Path | Mapping[str, str | Path], what: str) -> str | Path:
    """The path of a format that has all fields in one file.

    Raises:
        RequestError: there is a file for each field.
    """
    if isinstance(path, Mapping):
        raise RequestError(f"{what}; two files are format: moses")
    return path


def check_columns(what: str, columns: Mapping[str, Column], known: Sequence[str]) -> None:
    """Refuse columns that a format with the same ones in every file does not have.

    Raises:
        RequestError: naming the column, what it is for, and the nearest that there is.
    """
    for field, column in columns.items():
        if column not in known:
            hint = nearest(str(column), known)
            raise RequestError(f"{what} have no column {column!r} for {field!r}: {hint}")


def whole_number(text: str) -> int | None:
    """The number that up to 18 decimal digits say; None for anything else.

    `int` alone fails at more than 4,300 digits with an error of its own.

    Example:
        >>> whole_number("12"), whole_number("-1"), whole_number("1" * 5000)
        (12, None, None)
    """
    return int(text) if text.isdecimal() and len(text) <= 18 else None
