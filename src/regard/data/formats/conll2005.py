"""Semantic roles as in CoNLL-2005: behind the words' columns one of brackets for each predicate.

    He     PRP  -    -   (A0*)  (A0*)
    tried  VBD  try  01  (V*)   *
    to     TO   -    -   (A1*   *
    leave  VB   go   01  *)     (V*)

A row is a predicate, with the line of its word. Columns: `text`; `tags` in BIO, as (`B-A0`,
`B-V`, `B-A1`, `I-A1`); `predicate`, the number of its word from 0; `lemma`, `sense`, `pos` (of
each word) and `predicate_pos` (of the predicate), "-" where the file has none. Pieces of a phrase
that go on elsewhere stay `C-A1`. Where phrases are nested, tags tell the outer ones, and the others
are counted.

What stands before the brackets is found in the first sentence with a predicate: the column with one
lemma for each column of brackets; beside it maybe that of senses, of digits or two capitals; the
word is the first column and its tag the second, if they stand before both. So a file of words and
props joined is read as well as the files of PropBank. Source: Carreras and Màrquez (2005).
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.annotations.bracket_columns import flat, phrases_of, start_end_of
from regard.data.annotations.tag_schemes import lenient_spans, tags_of
from regard.data.files.row import Column, Row
from regard.data.formats._column_blocks import (
    Edit,
    Word,
    blocks,
    joined,
    tags_for,
    uneven,
    with_cells,
    without_comments,
)
from regard.data.formats.base import check_columns
from regard.data.problems import Problems
from regard.errors import RequestError

__all__ = ["COLUMNS", "edits", "read"]

log = logging.getLogger(__name__)

COLUMNS = ("text", "tags", "predicate", "lemma", "sense", "pos", "predicate_pos")
NONE = "-"
_SENSE = re.compile(r"\d+|[A-Z]{2}")


@dataclass(frozen=True)
class _Layout:
    """Which column has what, from 0; the brackets begin at `first`."""

    first: int
    lemma: int
    sense: int | None
    word: int | None
    tag: int | None

    @classmethod
    def of(cls, words: Sequence[Word]) -> "_Layout | None":
        """The layout of a sentence with a predicate, None where it tells none."""
        every = range(len(words[0].cells))
        first = 1 + max((c for c in every if any("*" not in w.cells[c] for w in words)), default=-1)
        count = len(every) - first
        marked = [c for c in (first - 1, first - 2) if c >= 0 and len(_marks(words, c)) == count]
        if not count or not marked:
            return None
        said = {c: [words[i].cells[c] for i in _marks(words, c)] for c in marked}
        senses = [c for c in marked if all(map(_SENSE.fullmatch, said[c]))]
        both = len(marked) == 2 and _marks(words, marked[0]) == _marks(words, marked[1])
        sense = senses[0] if both and senses else None
        lemma = next(c for c in marked if c != sense)
        before = min(lemma, lemma if sense is None else sense)
        return cls(first, lemma, sense, 0 if before else None, 1 if before > 1 else None)


def _marks(words: Sequence[Word], place: int) -> list[int]:
    return [i for i, word in enumerate(words) if word.cells[place] != NONE]


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read predicates, a row for each; `header` has no meaning here.

    A sentence whose lines have unequal numbers of columns is reported and left out; so is a
    predicate whose brackets do not match. Sentences without a predicate give no row.

    Raises:
        RequestError: a column that is not in `COLUMNS`, or words of a file without words.
    """
    if isinstance(path, Mapping):
        raise RequestError("a CoNLL-2005 file is one file; join words and props with `paste` first")
    check_columns("CoNLL-2005 files", columns, COLUMNS)
    file, nested, without = str(path), 0, 0
    for words, layout in _sentences(path, problems):
        found = _marks(words, layout.lemma) if layout else []
        without += not found
        if layout is None or not found:
            continue
        if layout.word is None and "text" in map(str, columns.values()):
            raise RequestError(
                f"{file}:{words[0].line}: there are no words before the predicates; "
                "join the files of words and of props with `paste` first"
            )
        own = {
            "text": "" if layout.word is None else joined(words, layout.word),
            "pos": " ".join([NONE] * len(words))
            if layout.tag is None
            else joined(words, layout.tag),
        }
        for number, place in enumerate(found):
            try:
                phrases = phrases_of([word.cells[layout.first + number] for word in words])
            except RequestError as error:
                problems.add(file, words[place].line, "broken roles", str(error))
                continue
            outer = flat(phrases)
            nested += len(phrases) - len(outer)
            cells = words[place].cells
            own |= {
                "tags": " ".join(tags_of(outer, len(words))),
                "predicate": str(place),
                "lemma": cells[layout.lemma],
                "sense": NONE if layout.sense is None else cells[layout.sense],
                "predicate_pos": NONE if layout.tag is None else cells[layout.tag],
            }
            row = {field: own[str(column)] for field, column in columns.items()}
            yield Row(row, file, words[place].line)
    problems.report(file)
    if without:
        log.info("%s: %d sentences without a predicate give no row", file, without)
    if nested:
        log.warning("%s: %d phrases inside others are not in the tags", file, nested)


def edits(
    path: str | Path, column: Column, predictions: Mapping[int, str], problems: Problems
) -> Iterator[Edit]:
    """For each sentence what its predicted tags change in the file; see `formats.write_back`.

    An I- tag that continues nothing begins a phrase, as in `tag_schemes.lenient_spans`. The
    brackets of a predicate whose tags are those of the file stay as they are.
    """
    check_columns("CoNLL-2005 files", {"tags": column}, ("tags",))
    for words, layout in _sentences(path, problems):
        named: list[int] = []
        cells: list[dict[int, str]] = [{} for _ in words]
        for number, place in enumerate(_marks(words, layout.lemma) if layout else []):
            assert layout is not None
            at, line = layout.first + number, words[place].line
            named.append(line)
            if line not in predictions:
                continue
            tags = tags_for(str(path), line, len(words), predictions)
            for own, new in zip(cells, _changed(str(path), words, at, line, tags), strict=True):
                if new is not None:
                    own[at] = new
        aligned = any("  " in word.text for word in words)
        yield (
            named,
            {
                word.line: with_cells(word.text, own, aligned)
                for word, own in zip(words, cells, strict=True)
                if own
            },
        )


def _changed(
    file: str, words: Sequence[Word], at: int, line: int, tags: list[str]
) -> list[str | None]:
    """The new cells of a column, None where one stays."""
    old = [word.cells[at] for word in words]
    try:
        if tags == tags_of(flat(phrases_of(old)), len(words)):
            return [None] * len(words)
    except RequestError:  # brackets that do not match: written again
        pass
    try:
        made = start_end_of(lenient_spans(tags), len(words))
    except RequestError as error:
        raise RequestError(f"{file}:{line}: {error}") from None
    return [new if new != was else None for new, was in zip(made, old, strict=True)]


def _sentences(path: str | Path, problems: Problems) -> Iterator[tuple[list[Word], _Layout | None]]:
    """The words of each sentence; the layout is None where no sentence has told it yet."""
    layout: _Layout | None = None
    for block in blocks(path, problems):
        words, width = without_comments(block)
        if not words:
            continue
        why = uneven(words, width)
        if why is None:
            layout = layout or _Layout.of(words)
            why = _mismatch(words, layout)
        if why:
            problems.add(str(path), why[0], "broken columns", why[1])
        else:
            yield words, layout


def _mismatch(words: Sequence[Word], layout: _Layout | None) -> tuple[int, str] | None:
    """Whether there are as many predicates as columns of brackets, and what else."""
    line, width = words[0].line, len(words[0].cells)
    if layout is None:
        if any("*" not in word.cells[-1] for word in words):
            return None  # no brackets and no predicate
        return line, "no column has one lemma for each column of roles"
    marks = len(_marks(words, layout.lemma)) if width > layout.lemma else 0
    if width - layout.first == marks:
        return None
    return line, f"{marks} predicates and {max(width - layout.first, 0)} columns of roles"
