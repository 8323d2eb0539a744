"""Columns as in CoNLL-2000 and CoNLL-2003: a word a line, its tag in one of the columns.

    -DOCSTART- -X- -X- O

    EU NNP I-NP I-ORG
    rejects VBZ I-VP O

Cells stand between tabs or blanks. Columns are numbers from 1, or names of the heading line
`# global.columns = FORM UPOS NER`. A row is a sentence: the cells of a column with blanks between
them, a blank within a cell written "_". `-DOCSTART-` and comments are no words: a comment begins
with "#", stands before the first word, and has another number of cells than the words, or a "=" as
its third. Source: Tjong Kim Sang and De Meulder (2003).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.files.row import Column, Row
from regard.data.formats._column_blocks import (
    Edit,
    Word,
    blocks,
    edit_of,
    joined,
    uneven,
    without_comments,
)
from regard.data.formats.base import one_file
from regard.data.problems import Problems
from regard.data.text.normal_form import composed
from regard.errors import RequestError, nearest

__all__ = ["edits", "names", "read"]

_DOCUMENT = "-DOCSTART-"
_HEADING = "global.columns"


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read sentences, each with the line of its first word; `header` has no meaning here.

    A sentence whose lines have unequal numbers of columns is reported at the first that differs
    from the file's first word, and left out.

    Raises:
        RequestError: a column that the file does not have.
    """
    path = one_file(path, "a CoNLL file is one file with columns")
    file = str(path)
    places: dict[str, int] = {}
    for words, heading in _sentences(path, problems):
        if len(places) < len(columns):
            width = len(words[0].cells)
            places = {f: _place(file, f, c, heading, width) for f, c in columns.items()}
        yield Row({f: joined(words, at) for f, at in places.items()}, file, words[0].line)
    problems.report(file)


def edits(
    path: str | Path, column: Column, predictions: Mapping[int, str], problems: Problems
) -> Iterator[Edit]:
    """For each sentence what its predicted tags change in the file; see `formats.write_back`."""
    place = None
    for words, heading in _sentences(path, problems):
        if place is None:
            place = _place(str(path), "tags", column, heading, len(words[0].cells))
        yield edit_of(str(path), words, place, predictions)


def names(path: str | Path) -> list[Column]:
    """The columns of a file: the names of its heading, or numbers."""
    for words, heading in _sentences(path, Problems(shown=0)):
        return [*heading] or [*range(1, len(words[0].cells) + 1)]
    return []


def _sentences(path: str | Path, problems: Problems) -> Iterator[tuple[list[Word], list[str]]]:
    """The words of each sentence, and the names of the columns where the file has them."""
    width, heading = 0, list[str]()
    for block in blocks(path, problems):
        words, _ = without_comments(block)
        for word in block[: len(block) - len(words)]:
            name, _, value = word.text.removeprefix("#").partition("=")
            if name.strip() == _HEADING:
                heading = composed(value).split()
        words = [word for word in words if word.cells[0] != _DOCUMENT]
        if not words:
            continue
        width = width or len(words[0].cells)
        if found := uneven(words, width):
            problems.add(str(path), found[0], "broken columns", found[1])
        else:
            yield words, heading


def _place(file: str, field: str, column: Column, heading: list[str], width: int) -> int:
    """Where a column stands, from 0."""
    if column in heading:
        return heading.index(str(column))
    if str(column).isdecimal():
        if not 1 <= int(column) <= width:
            raise RequestError(
                f"{file}: there is no column {column} for {field!r}; "
                f"columns are counted from 1, and there are {width}"
            )
        return int(column) - 1
    if not heading:
        raise RequestError(
            f"{file}: without a line '# {_HEADING} = …' columns are numbers from 1, "
            f"not {column!r} for {field!r}"
        )
    raise RequestError(
        f"{file}: there is no column {column!r} for {field!r}: {nearest(str(column), heading)}"
    )
