"""Readers of data files, one module per format; `regard.data.files.registry` has their table."""

from collections.abc import Mapping
from pathlib import Path

from regard.data.files.registry import FORMATS, format_of, read
from regard.data.files.row import Column, Row
from regard.data.formats._rewriting import rewritten
from regard.data.problems import Problems
from regard.errors import RequestError, nearest

__all__ = ["Column", "Row", "format_of", "read", "write_back"]

_WRITTEN = ("conll", "conllu", "conll2005", "jsonl", "pubtator-tags")
"""The formats that predicted tags can be written back to: their modules have `edits`."""


def write_back(
    source: str | Path,
    target: str | Path,
    predictions: Mapping[int, str],
    column: Column = "tags",
    format: str | None = None,
) -> tuple[int, int]:
    """Write a file again with predicted tags in place of its own; all else stays byte for byte.

    The target is written whole or not at all, and packed as its name says (`.gz`, `.zst`). A row
    without a prediction keeps its tags.

    Args:
        source: the file that the rows were read from.
        predictions: the line of a row (`Row.line`) -> its tags, divided by blanks.
        column: where tags are, as the rows were read; `tags` for `conll2005`.
        format: `conll`, `conllu`, `conll2005`, `jsonl` or `pubtator-tags`; told from the file's
            name where not given.

    Returns:
        How many rows have a prediction, and how many keep their own tags.

    Raises:
        RequestError: a format without a writer, a prediction for a line that has no row, with
            another number of tags than the row has words, or with a label that cannot be written.
    """
    chosen = format or format_of(source)
    if chosen not in _WRITTEN:
        raise RequestError(f"tags are not written to {chosen!r} files: {nearest(chosen, _WRITTEN)}")
    if str(source) == "-":
        raise RequestError("expected a file to write back to, standard input is read only once")
    edits = FORMATS[chosen].load().edits(source, column, predictions, Problems(shown=0))
    return rewritten(source, Path(target), edits, predictions)
