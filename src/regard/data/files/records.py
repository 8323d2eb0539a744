"""JSON objects: one per line, or a whole file."""

import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.data.files.lines import lines
from regard.data.files.packing import whole_text
from regard.data.files.row import Column
from regard.data.problems import Problems
from regard.data.text.normal_form import composed
from regard.errors import RequestError
from regard.system.plain_json import read_json

__all__ = ["cells_of", "objects", "whole_json", "with_plain_keys"]


def objects(path: str | Path, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number and the object of each line; lines that hold none are reported."""
    file = str(path)
    for number, text in lines(path, problems):
        if text is None:
            continue
        if not text.strip():
            problems.add(file, number, "empty")
            continue
        try:
            value = read_json(text)
        except ValueError as error:
            problems.add(file, number, "not JSON", str(error))
            continue
        if isinstance(value, dict):
            yield number, with_plain_keys(value)
        else:
            problems.add(file, number, "not a JSON object", f"it is a {type(value).__name__}")


def with_plain_keys(value: dict[str, Any]) -> dict[str, Any]:
    """An object with its keys in NFC."""
    if all(map(str.isascii, value)):
        return value
    return {composed(key): own for key, own in value.items()}


def whole_json(path: str | Path) -> Any:
    """The value of a JSON file.

    Raises:
        RequestError: it cannot be read, or is not JSON.
    """
    text = whole_text(path)
    try:
        return read_json(text)
    except ValueError as error:
        raise RequestError(f"{path} is not JSON: {error}") from error


def cells_of(
    value: Mapping[str, Any], columns: Mapping[str, Column], lists: Collection[str]
) -> tuple[dict[str, Any], str]:
    """The cells of an object, and what is wrong with it ("": nothing).

    A cell is a text, a finite number or a boolean, written as JSON has it (1.0 as 1); a list of
    these where the field takes lists.

    Args:
        columns: the key of each field.
        lists: the fields that take lists.

    Example:
        >>> cells_of({"a": 1.0, "b": ["x", True]}, {"one": "a", "two": "b"}, ["two"])
        ({'one': '1', 'two': ['x', 'true']}, '')
    """
    found: dict[str, Any] = {}
    wrong = []
    for field, column in columns.items():
        own = value.get(str(column))
        if field in lists and isinstance(own, list):
            items = [_cell(item) for item in own]
            cell: Any = None if None in items else items
        else:
            cell = _cell(own)
        if cell is None:
            wrong.append(repr(str(column)))
        else:
            found[field] = cell
    return found, f"no text at {', '.join(wrong)}" if wrong else ""


def _cell(value: Any) -> str | None:
    """A value as text; None for null, NaN, an infinity, an object or a list."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value) if isinstance(value, (str, int)) else None
