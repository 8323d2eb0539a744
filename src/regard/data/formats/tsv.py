"""Tab-separated values: one example a line, columns found by the heading line or by number."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.files.delimited import TSV, rows
from regard.data.files.row import Column, Row
from regard.data.problems import Problems
from regard.errors import RequestError

__all__ = ["read"]


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read a TSV file; columns that are not asked for are skipped. See `registry.read`."""
    if isinstance(path, Mapping):
        raise RequestError("a TSV file is one file with columns; two files are format: moses")
    yield from rows(path, columns, TSV, header, problems)
