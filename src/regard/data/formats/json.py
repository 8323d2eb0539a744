"""A JSON file that is an array of objects, a row each; columns are their keys."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.data.files.records import whole_json, with_plain_keys
from regard.data.files.row import Column, Row
from regard.data.formats.base import one_file
from regard.data.formats.jsonl import rows_of
from regard.data.problems import Problems
from regard.errors import RequestError

__all__ = ["objects", "read"]


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
    lists: Collection[str] = (),
) -> Iterator[Row]:
    """Read an array; a row's line is the number of its object. See `registry.read`.

    Raises:
        RequestError: not JSON, no array, or a key that no object has.
    """
    path = one_file(path, "a JSON file is one file with keys")
    file = f"{path}:object"
    for row in rows_of(file, objects(path, problems), columns, lists, problems):
        yield Row(row.fields, str(path), row.line)
    problems.report(file)


def objects(path: str | Path, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of an array with their numbers, from 1; other values are reported.

    Raises:
        RequestError: the file is no array.
    """
    found = whole_json(path)
    if isinstance(found, dict) and isinstance(found.get("data"), list):
        raise RequestError(
            f"{path} is no array of objects; for questions as SQuAD has them say data.format: squad"
        )
    if not isinstance(found, list):
        raise RequestError(
            f"{path}: expected an array of objects, [{{...}}, ...], it is a {type(found).__name__}"
        )
    for number, value in enumerate(found, 1):
        if isinstance(value, dict):
            yield number, with_plain_keys(value)
        else:
            kind = type(value).__name__
            problems.add(f"{path}:object", number, "not a JSON object", f"it is a {kind}")
