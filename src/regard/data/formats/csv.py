"""CSV as spreadsheets write it: cells between delimiters, some in quotes, with line ends in them.

Delimiter (comma, semicolon, tab or bar) and quotes are found out from the first lines, unless
`data.csv` says them. Read by Python's `csv` (RFC 4180).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.files.delimited import dialect_of, rows
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
    dialect: Mapping[str, str] | None = None,
) -> Iterator[Row]:
    """Read a CSV file; columns that are not asked for are skipped. See `registry.read`.

    A row is at the line where it begins. A quote that is not closed costs its own row.
    """
    path = one_file(path, "a CSV file is one file with columns")
    yield from rows(path, columns, dialect_of(path, dialect), header, problems)
