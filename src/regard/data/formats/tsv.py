"""Tab-separated values: one example a line, columns found by the heading line or by number."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.files.lines import lines
from regard.data.formats.base import Column, Row
from regard.data.problems import Problems
from regard.errors import RequestError, nearest

__all__ = ["read"]


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read a TSV file; columns that are not asked for are skipped. See `formats.read`."""
    if isinstance(path, Mapping):
        raise RequestError("a TSV file is one file with columns; two files are format: moses")
    file = str(path)
    rows = lines(path, problems)
    heading: list[str] = []
    if header:
        heading = (next(rows, (1, ""))[1] or "").split("\t")
    places = {field: _place(file, field, column, heading) for field, column in columns.items()}
    least = max(places.values(), default=-1) + 1
    for number, text in rows:
        if text is None:
            continue
        cells = text.split("\t")
        if not text.strip():
            problems.add(file, number, "empty")
        elif len(cells) < least:
            detail = f"{len(cells)} columns, at least {least} expected"
            problems.add(file, number, "lacks a column", detail)
        else:
            yield Row({field: cells[at] for field, at in places.items()}, file, number)
    problems.report(file)


def _place(file: str, field: str, column: Column, heading: list[str]) -> int:
    """Where a column stands, from 0."""
    if isinstance(column, str) and column in heading:
        return heading.index(column)
    if str(column).isdecimal():
        at = int(column) - 1
        if at < 0:
            raise RequestError(f"column {column} for {field!r}: columns are counted from 1")
        if heading and at >= len(heading):
            raise RequestError(
                f"{file}:1: there is no column {column} for {field!r}; it has {len(heading)}"
            )
        return at
    if not heading:
        raise RequestError(
            f"{file}: without a heading line (header: false) columns are numbers from 1, "
            f"not {column!r} for {field!r}"
        )
    names = ", ".join(repr(name) for name in heading)
    raise RequestError(
        f"{file}:1: there is no column {column!r} for {field!r}; the heading line has {names} "
        f"({nearest(str(column), heading)}); for a file without heading line say header: false"
    )
