"""Blocks of lines with blank ones between: sentences of column files, a word a line."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.files.lines import LONGEST, lines
from regard.data.problems import Problems
from regard.errors import RequestError

__all__ = [
    "Edit",
    "Word",
    "blocks",
    "cut",
    "edit_of",
    "joined",
    "tags_for",
    "uneven",
    "with_cells",
    "without_comments",
]

Edit = tuple[list[int], Mapping[int, str | None]]
"""The lines that name the rows of a sentence, and the new text of each line that changes.

A text may have several lines; a line with None is left out.
"""

_GAPS = re.compile(r"( +)")


@dataclass(frozen=True, slots=True)
class Word:
    """One line of a sentence, cut into cells."""

    line: int
    text: str
    cells: list[str]


def blocks(path: str | Path, problems: Problems) -> Iterator[list[Word]]:
    """The lines between blank ones; a sentence with a line that cannot be read is left out."""
    found: list[Word] = []
    size, broken = 0, False
    for number, text in lines(path, problems):
        if text is not None and not text.strip():
            if found and not broken:
                yield found
            found, size, broken = [], 0, False
            continue
        broken = broken or text is None
        if broken:
            found = []
            continue
        assert text is not None
        found.append(Word(number, text, cut(text)))
        size += len(text)
        if size > LONGEST:
            first = found[0].line
            problems.add(str(path), first, "too long", f"more than {LONGEST:,} characters")
            found, broken = [], True
    if found and not broken:
        yield found


def cut(text: str) -> list[str]:
    """The cells of a line: between tabs if it has one, else between blanks."""
    return text.split("\t") if "\t" in text else [cell for cell in text.split(" ") if cell]


def without_comments(block: Sequence[Word]) -> tuple[list[Word], int]:
    """The words of a block, and how many cells they have: most of them.

    A comment begins with "#", stands before the first word, and has another number of cells than
    the words, or a "=" as its third.
    """
    counts = Counter(len(word.cells) for word in block if not word.text.startswith("#"))
    counts = counts or Counter(len(word.cells) for word in block)
    width = counts.most_common(1)[0][0]
    for at, word in enumerate(block):
        if word.text[:1] != "#" or (len(word.cells) == width and word.cells[2:3] != ["="]):
            return list(block[at:]), width
    return [], width


def joined(words: Sequence[Word], place: int) -> str:
    """A column's cells with blanks between; a blank within a cell is written "_"."""
    return " ".join("_".join(word.cells[place].split()) or "_" for word in words)


def uneven(words: Sequence[Word], width: int) -> tuple[int, str] | None:
    """The line of the first word with another number of cells or an empty one, and what it has."""
    for word in words:
        if len(word.cells) != width:
            return word.line, f"{len(word.cells)} columns, {width} expected"
        if not all(cell.strip() for cell in word.cells):
            at = next(i for i, cell in enumerate(word.cells, start=1) if not cell.strip())
            return word.line, f"column {at} is empty"
    return None


def with_cells(text: str, cells: Mapping[int, str], aligned: bool) -> str:
    """A line with other cells at some places; in aligned columns the others stay where they are.

    Example:
        >>> with_cells("dog   O   x", {1: "B-A"}, aligned=True)
        'dog   B-A x'
        >>> with_cells("dog O x", {1: "B-A"}, aligned=False)
        'dog B-A x'
    """
    if "\t" in text:
        parts = text.split("\t")
        for place, cell in cells.items():
            parts[place] = cell
        return "\t".join(parts)
    parts = _GAPS.split(text)
    places = [at for at in range(0, len(parts), 2) if parts[at]]
    for place, cell in cells.items():
        at = places[place]
        if aligned and at + 2 < len(parts) and parts[at + 2]:
            width = len(parts[at]) + len(parts[at + 1])
            parts[at + 1] = " " * max(1, width - len(cell))
        parts[at] = cell
    return "".join(parts)


def edit_of(file: str, words: Sequence[Word], place: int, predictions: Mapping[int, str]) -> Edit:
    """What a prediction for a whole sentence changes; the sentence's first line names it."""
    first = words[0].line
    if first not in predictions:
        return [first], {}
    tags = tags_for(file, first, len(words), predictions)
    aligned = any("  " in word.text for word in words)
    own = joined(words, place).split()
    return [first], {
        word.line: with_cells(word.text, {place: tag}, aligned)
        for word, tag, was in zip(words, tags, own, strict=True)
        if tag != was
    }


def tags_for(file: str, line: int, length: int, predictions: Mapping[int, str]) -> list[str]:
    """The predicted tags of a row, one for each of its words."""
    tags = predictions[line].split()
    if len(tags) != length:
        raise RequestError(f"{file}:{line}: expected {length} tags, got {len(tags)}")
    return tags
