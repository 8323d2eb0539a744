"""JSON lines: one object a line, columns are its keys."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from regard.data.files.lines import lines
from regard.data.files.records import objects
from regard.data.formats.base import Column, Row
from regard.data.problems import Problems
from regard.errors import RequestError, nearest
from regard.system.plain_json import read_json

__all__ = ["edits", "read"]


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


def _is_text(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)
