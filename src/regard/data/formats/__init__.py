"""Readers of data files: one module per format, one `read` for all of them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.files.registry import format_of, unpacked_name
from regard.data.formats import (
    babi,
    cbt,
    conll,
    conll2005,
    conllu,
    image_folders,
    jsonl,
    moses,
    npz,
    pubtator_tags,
    semeval,
    squad,
    text_pairs,
    trees,
    tsv,
)
from regard.data.formats._rewriting import rewritten
from regard.data.formats.base import Column, Row
from regard.data.problems import Problems
from regard.errors import RequestError, nearest

__all__ = [
    "COLUMNS",
    "FORMATS",
    "WRITTEN",
    "Column",
    "Row",
    "format_of",
    "read",
    "unpacked_name",
    "write_back",
]

FORMATS = {
    "tsv": tsv.read,
    "jsonl": jsonl.read,
    "moses": moses.read,
    "cbt": cbt.read,
    "squad": squad.read,
    "semeval": semeval.read,
    "babi": babi.read,
    "trees": trees.read,
    "conll": conll.read,
    "conllu": conllu.read,
    "conll2005": conll2005.read,
    "pubtator-tags": pubtator_tags.read,
    "text-pairs": text_pairs.read,
    "npz": npz.read,
    "folders": image_folders.read,
    "tar": image_folders.read_tar,
}
"""What a recipe may name as `data.format`."""

WRITTEN = {
    "conll": conll.edits,
    "conllu": conllu.edits,
    "conll2005": conll2005.edits,
    "jsonl": jsonl.edits,
    "pubtator-tags": pubtator_tags.edits,
}
"""The formats that predicted tags can be written back to."""

COLUMNS = {
    "babi": babi.COLUMNS,
    "cbt": cbt.COLUMNS,
    "conll2005": conll2005.COLUMNS,
    "conllu": conllu.COLUMNS,
    "folders": image_folders.COLUMNS,
    "pubtator-tags": pubtator_tags.COLUMNS,
    "semeval": semeval.COLUMNS,
    "squad": squad.COLUMNS,
    "text-pairs": text_pairs.COLUMNS,
    "tar": image_folders.COLUMNS,
    "trees": trees.COLUMNS,
}
"""The columns of formats that have the same in every file."""


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
        path: a file, plain or packed; '-' is standard input; for Moses files the common part of two
            names (`train` for `train.de` and `train.en`) or a file for each field.
        columns: for each field the name of its column, or its number from 1. For Moses files with a
            common name: the ending of its file.
        format: a key of `FORMATS`; told from the file's name where not given.
        header: whether the first line of a TSV file names its columns.
        problems: takes what is wrong with single lines; those lines are left out.
        lists: the fields that may be lists in JSON lines, with what is put between their items.

    Raises:
        RequestError: no such file or format, a column that is not there, Moses files of unequal
            length, or a packed file that ends early.
    """
    chosen = format or format_of(path)
    if chosen not in FORMATS:
        raise RequestError(f"unknown data format {chosen!r}: {nearest(chosen, FORMATS)}")
    problems = Problems() if problems is None else problems
    if lists and chosen == "jsonl":  # no other format has lists
        return jsonl.read(path, columns, header=header, problems=problems, lists=lists)
    return FORMATS[chosen](path, columns, header=header, problems=problems)


def write_back(
    source: str | Path,
    target: str | Path,
    predictions: Mapping[int, str],
    column: Column = "tags",
    format: str | None = None,
) -> tuple[int, int]:
    """Write a file again with predicted tags in place of its own; all else stays byte for byte.

    The target is written whole or not at all, and zipped if its name ends with `.gz`. A row without
    a prediction keeps its tags.

    Args:
        source: the file that the rows were read from.
        predictions: the line of a row (`Row.line`) -> its tags, divided by blanks.
        column: where tags are, as the rows were read; `tags` for `conll2005`.
        format: a key of `WRITTEN`; told from the file's name where not given.

    Returns:
        How many rows have a prediction, and how many keep their own tags.

    Raises:
        RequestError: a format without a writer, a prediction for a line that has no row, with
            another number of tags than the row has words, or with a label that cannot be written.
    """
    chosen = format or format_of(source)
    if chosen not in WRITTEN:
        raise RequestError(f"tags are not written to {chosen!r} files: {nearest(chosen, WRITTEN)}")
    if str(source) == "-":
        raise RequestError("expected a file to write back to, standard input is read only once")
    edits = WRITTEN[chosen](source, column, predictions, Problems(shown=0))
    return rewritten(source, Path(target), edits, predictions)
