"""Tab-separated values: one example a line, columns found by the heading line or by number."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.files.delimited import TSV, rows
from regard.data.files.row import Column, Row
from regard.data.formats.base import one_file
from regard.data.problems import Problems

__all__ = ["read"]


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read a TSV file; columns that are not asked for are skipped. See `registry.read`."""
    path = one_file(path, "a TSV file is one file with columns")
    yield from rows(path, columns, TSV, header, problems)
