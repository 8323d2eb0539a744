"""CoNLL-U of Universal Dependencies: ten columns with tabs between, comments before a sentence.

    # text = He's here
    1-2     He's  _   _     …
    1       He    he  PRON  …
    2       's    be  AUX   …
    3       here  …
    3.1     …                      an empty node

A row is a sentence of the words numbered 1, 2, 3 …: multiword tokens (`1-2`) and empty nodes
(`3.1`) are no words. A blank within a cell is written "_". Source: universaldependencies.org,
"CoNLL-U Format".
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.files.row import Column, Row
from regard.data.formats._column_blocks import Edit, Word, blocks, edit_of, joined, uneven
from regard.data.formats.base import check_columns, one_file
from regard.data.problems import Problems

__all__ = ["COLUMNS", "edits", "read"]

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_NO_WORD = re.compile(r"\d+[-.]\d+")


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read sentences, each with the line of its first word; `header` has no meaning here.

    Raises:
        RequestError: a column that is not in `COLUMNS` and no number from 1 to 10.
    """
    path = one_file(path, "a CoNLL-U file is one file")
    file = str(path)
    places = {field: _place(field, column) for field, column in columns.items()}
    for words in _sentences(path, problems):
        yield Row({f: joined(words, at) for f, at in places.items()}, file, words[0].line)
    problems.report(file)


def edits(
    path: str | Path, column: Column, predictions: Mapping[int, str], problems: Problems
) -> Iterator[Edit]:
    """For each sentence what its predicted tags change in the file; see `formats.write_back`."""
    place = _place("tags", column)
    for words in _sentences(path, problems):
        yield edit_of(str(path), words, place, predictions)


def _sentences(path: str | Path, problems: Problems) -> Iterator[list[Word]]:
    for block in blocks(path, problems):
        found = [word for word in block if not word.text.startswith("#")]
        if not found:
            continue
        why = uneven(found, len(COLUMNS))
        words = [word for word in found if not _NO_WORD.fullmatch(word.cells[0])]
        for number, word in enumerate(words, start=1):
            if not why and word.cells[0] != str(number):
                why = word.line, f"word {number} has the ID {word.cells[0]!r}"
        if why:
            problems.add(str(path), why[0], "not CoNLL-U", why[1])
        elif words:
            yield words


def _place(field: str, column: Column) -> int:
    """Where a column stands, from 0."""
    if str(column).isdecimal() and 1 <= int(column) <= len(COLUMNS):
        return int(column) - 1
    check_columns("CoNLL-U files", {field: column}, COLUMNS)
    return COLUMNS.index(str(column))
