"""JSON lines: one object a line, columns are its keys."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.data.files.lines import lines
from regard.data.files.records import cells_of, objects
from regard.data.files.row import Column, Row
from regard.data.formats.base import one_file
from regard.data.problems import Problems
from regard.errors import RequestError, nearest
from regard.system.plain_json import read_json

__all__ = ["edits", "read", "rows_of"]


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
    lists: Collection[str] = (),
) -> Iterator[Row]:
    """Read a JSONL file; `header` has no meaning here. See `registry.read`.

    A key that no line has is an error of the request, not of the lines.
    """
    path = one_file(path, "a JSONL file is one file with keys")
    yield from rows_of(str(path), objects(path, problems), columns, lists, problems)
    problems.report(str(path))


def rows_of(
    file: str,
    found: Iterator[tuple[int, dict[str, Any]]],
    columns: Mapping[str, Column],
    lists: Collection[str],
    problems: Problems,
) -> Iterator[Row]:
    """The rows of objects with their numbers; see `read`."""
    met: set[str] = set()  # fields whose key is there at least once
    keys: dict[str, None] = {}  # keys met, in order
    for number, value in found:
        keys.update(dict.fromkeys(value))
        met.update(f for f, column in columns.items() if str(column) in value)
        cells, wrong = cells_of(value, columns, lists)
        if wrong:
            problems.add(file, number, "lacks a column", wrong)
        else:
            yield Row(cells, file, number)
    missing = [f for f in columns if f not in met]
    if missing and keys:
        column = str(columns[missing[0]])
        names = ", ".join(repr(key) for key in keys)
        raise RequestError(
            f"{file}: no line has the key {column!r} for {missing[0]!r}; "
            f"there are {names}: {nearest(column, keys)}"
        )


def edits(
    path: str | Path, column: Column, predictions: Mapping[int, str], problems: Problems
) -> Iterator[tuple[list[int], dict[int, str]]]:
    """For each object what its predicted tags change in its line; see `formats.write_back`.

    Tags stay a text or a list, as the object has them; an object without them gets a list. The
    rest of the line stays as it is.
    """
    key = str(column)
    for number, text in lines(path, problems):
        if text is None or not text.strip():
            continue
        try:
            found = read_json(text)
        except ValueError:
            continue
        if not isinstance(found, dict):
            continue
        if number not in predictions:
            yield [number], {}
            continue
        tags, own = predictions[number].split(), found.get(key)
        new = " ".join(tags) if isinstance(own, str) else tags
        yield [number], {} if new == own else {number: _with_value(text, key, new)}


def _with_value(text: str, key: str, value: str | list[str]) -> str:
    """A line with another value at a key of its object; all else as it was."""
    written, decoder = json.dumps(value, ensure_ascii=False), json.JSONDecoder()
    at, pair = text.index("{") + 1, re.compile(r"[\s,:]*")
    last, told = at, None
    while text[at := _behind(pair, text, at)] != "}":
        name, at = decoder.raw_decode(text, at)
        start = _behind(pair, text, at)
        _, last = decoder.raw_decode(text, start)
        if name == key:  # of equal keys the last one counts
            told = start, last
        at = last
    if told:
        return text[: told[0]] + written + text[told[1] :]
    between = ", " if last > text.index("{") + 1 else ""
    return f"{text[:last]}{between}{json.dumps(key, ensure_ascii=False)}: {written}{text[last:]}"


def _behind(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
