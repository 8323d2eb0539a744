"""Readers of data files: one module per format, one `read` for all of them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.formats import babi, cbt, jsonl, moses, squad, trees, tsv
from regard.data.formats.text import Column, Row
from regard.data.problems import Problems
from regard.errors import RequestError, nearest

__all__ = ["COLUMNS", "FORMATS", "Column", "Row", "format_of", "read"]

FORMATS = {
    "tsv": tsv.read,
    "jsonl": jsonl.read,
    "moses": moses.read,
    "cbt": cbt.read,
    "squad": squad.read,
    "babi": babi.read,
    "trees": trees.read,
}
"""What a recipe may name as `data.format`."""

COLUMNS = {
    "babi": babi.COLUMNS,
    "cbt": cbt.COLUMNS,
    "squad": squad.COLUMNS,
    "trees": trees.COLUMNS,
}
"""The columns of formats that have the same in every file."""

_ENDINGS = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "squad",
    ".trees": "trees",
    ".mrg": "trees",
}


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    format: str | None = None,
    header: bool = True,
    problems: Problems | None = None,
    lists: Mapping[str, str] | None = None,
) -> Iterator[Row]:
    """Read rows of named fields from a file, line by line.

    Args:
        path: a file, plain or gzip; '-' is standard input; for Moses files the common part of two
            names (`train` for `train.de` and `train.en`) or a file for each field.
        columns: for each field the name of its column, or its number from 1. For Moses files with a
            common name: the ending of its file.
        format: a key of `FORMATS`; told from the file's name where not given.
        header: whether the first line of a TSV file names its columns.
        problems: takes what is wrong with single lines; those lines are left out.
        lists: the fields that may be lists in JSON lines, with what is put between their items.

    Raises:
        RequestError: no such file or format, a column that is not there, Moses files of unequal
            length, or a gzip file that ends early.
    """
    chosen = format or format_of(path)
    if chosen not in FORMATS:
        raise RequestError(f"unknown data format {chosen!r}: {nearest(chosen, FORMATS)}")
    problems = Problems() if problems is None else problems
    if lists and chosen == "jsonl":  # no other format has lists
        return jsonl.read(path, columns, header=header, problems=problems, lists=lists)
    return FORMATS[chosen](path, columns, header=header, problems=problems)


def format_of(path: str | Path | Mapping[str, str | Path]) -> str:
    """The format that a file's name tells: `.tsv`, `.jsonl` (or `.gz` of it); else Moses files."""
    if isinstance(path, Mapping):
        return "moses"
    name = str(path).removesuffix(".gz")
    if name == "-":
        return "tsv"
    return _ENDINGS.get(Path(name).suffix.lower(), "moses")
