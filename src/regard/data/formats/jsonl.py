"""JSON lines: one object a line, columns are its keys."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from regard.data.formats.text import Column, Row, lines
from regard.data.plain_json import read_json
from regard.data.problems import Problems
from regard.errors import RequestError, nearest

__all__ = ["objects", "read"]


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
    lists: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Row]:
    """Read a JSONL file; `header` has no meaning here. See `formats.read`.

    A key that no line has is an error of the request, not of the lines.
    """
    if isinstance(path, Mapping):
        raise RequestError("a JSONL file is one file with keys; two files are format: moses")
    file = str(path)
    found: set[str] = set()  # fields met at least once
    keys: dict[str, None] = {}  # keys met, in order
    for number, value in objects(path, problems):
        keys.update(dict.fromkeys(value))
        there = {f: value[str(c)] for f, c in columns.items() if str(c) in value}
        for field, between in lists.items():
            if isinstance(own := there.get(field), list) and all(map(_is_text, own)):
                there[field] = between.join(map(str, own))
        found.update(there)
        wrong = [f for f in columns if not _is_text(there.get(f))]
        if wrong:
            names = ", ".join(repr(str(columns[f])) for f in wrong)
            problems.add(file, number, "lacks a column", f"no text at {names}")
        else:
            yield Row({f: str(v) for f, v in there.items()}, file, number)
    problems.report(file)
    missing = [f for f in columns if f not in found]
    if missing and keys:
        column = str(columns[missing[0]])
        names = ", ".join(repr(key) for key in keys)
        raise RequestError(
            f"{file}: no line has the key {column!r} for {missing[0]!r}; "
            f"there are {names}: {nearest(column, keys)}"
        )


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
            yield number, value
        else:
            problems.add(file, number, "not a JSON object", f"it is a {type(value).__name__}")


def _is_text(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)
