"""Running text: lines that follow each other, in one long row of ids with an end behind each."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.files import registry
from regard.data.files.lines import lines as plain
from regard.data.files.row import column_of
from regard.data.problems import Problems, Silent
from regard.data.text.normal_form import composed
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError, nearest
from regard.protocols import EOS

__all__ = [
    "FORMATS",
    "IN_ORDER",
    "Line",
    "RunningText",
    "documents",
    "encode",
    "format_of",
    "lines",
    "vocabulary",
]

FORMATS = {"text": "", **dict.fromkeys(("jsonl", "json", "tsv", "csv"), "text"), "trees": "words"}
"""What running text can be in, and the column it is in unless told otherwise."""

IN_ORDER = ("text", "trees")
"""Formats whose lines follow each other; a row of another one is a text of its own."""

AT_ONCE = 1 << 14
"""Lines cut into pieces together."""

Line = tuple[int, str]
"""The number of a line (or row) of a file, and a line of its text."""


@dataclass(frozen=True, eq=False)
class RunningText:
    """A text in ids: EOS, then every line with an EOS behind it.

    Args:
        ids: all of it.
        starts: where each line begins, and the end of the last; the first begins at 1.
        words: how many words each line has, whatever its pieces are.
        lines: as they were written, where they were kept.
    """

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    words: NDArray[np.int64]
    lines: list[str] | None = None


def format_of(path: str | Path) -> str:
    """The format that a file's name tells: rows or trees, and plain text where it tells nothing."""
    found = registry.format_of(path, {".txt": "text"})
    return found if found in FORMATS and str(path) != "-" else "text"


def lines(
    path: str | Path,
    problems: Problems,
    *,
    format: str | None = None,
    column: str | int | None = None,
    header: bool = True,
    limit: int | None = None,
    only: Collection[int] | None = None,
) -> Iterator[Line]:
    """The lines of a text, one after the other; blank ones are layout and left out.

    Args:
        path: a file, plain or gzip, or '-' for standard input.
        format: a key of `FORMATS`; told from the name where not given.
        column: of rows, where the text is; it may have several lines.
        header: whether the first line of a TSV file names its columns.
        limit: only this many lines from the beginning of the file, or rows.
        only: lines (rows) of the file that are read; None: all.

    Raises:
        RequestError: no such file, format or column.
    """
    chosen = format or format_of(path)
    if chosen not in FORMATS:
        raise RequestError(f"running text is in no {chosen!r}: {nearest(chosen, FORMATS)}")
    found: Iterator[tuple[int, str | None]]
    if chosen == "text":
        found = plain(path, problems)
    else:
        where = {"text": column or FORMATS[chosen]}
        rows = registry.read(path, where, chosen, header, problems)
        found = ((row.line, row.fields["text"]) for row in rows)
    if only is not None:
        found = ((number, text) for number, text in found if number in only)
    for number, text in islice(found, limit):
        for line in (text or "").split("\n"):
            if line.strip():
                yield number, line


def documents(
    path: str | Path,
    *,
    format: str | None = None,
    column: str | int | None = None,
    header: bool = True,
    by: str = "",
) -> Iterator[tuple[int, str, str]]:
    """The lines of a text with the document that each is in, as `(line, document, text)`.

    A row is a document, or those with the same value in a column. In plain text blank lines divide
    documents; where there are none, every line is one. A tree is one.

    Args:
        by: a column of rows.

    Raises:
        RequestError: no such file, format or column, or a column of what has none.
    """
    chosen = format or format_of(path)
    if chosen in IN_ORDER and by:
        raise RequestError(f"data.split.by: {path} has no columns; leave it out")
    if chosen == "text":
        in_one = all(block == 1 for _, block, _ in _blocks(path))
        for line, block, text in _blocks(path):
            yield line, str(line if in_one else block), text
        return
    wanted = {"text": column or FORMATS[chosen]}
    if by:
        wanted["by"] = column_of(by)
    for row in registry.read(path, wanted, chosen, header, Silent()):
        own = row.fields["text"]
        yield row.line, str(row.line) if chosen in IN_ORDER else row.fields.get("by", own), own


def _blocks(path: str | Path) -> Iterator[tuple[int, int, str]]:
    """The lines of a text, with the number of the block between blank lines that each is in."""
    block, apart = 0, True
    for line, text in plain(path, Silent()):
        if text is None:
            continue
        if text.strip():
            block += apart
            yield line, block, text
        apart = not text.strip()


def vocabulary(
    read: Callable[[], Iterable[Line]], settings: dict[str, Any], least: int = 1
) -> Tokenizer:
    """Learn a tokenizer from lines.

    Args:
        read: gives the lines from the first on, as often as it is called.
        settings: `kind`, `vocab_size`, `lowercase` of `Tokenizer.train`.
        least: words that occur less often are unknown.
    """
    if least > 1:
        frequent = _frequent(read, least, lowercase=settings.get("lowercase", False))
        return Tokenizer.train(frequent, **settings)
    return Tokenizer.train((line for _, line in read()), **settings)


def encode(found: Iterable[Line], tokenizer: Tokenizer, *, keep: bool) -> RunningText:
    """Turn lines into one text; the lines themselves are never all in memory unless kept."""
    ids, sizes = [np.array([EOS], np.int32)], [np.ones(1, np.int64)]
    words, kept = [np.zeros(0, np.int64)], list[str]()
    remaining = iter(found)
    while some := list(islice(remaining, AT_ONCE)):
        own = [line for _, line in some]
        packed = tokenizer.encode_all(own)
        ids.append(np.insert(packed.flat, packed.starts[1:], EOS).astype(np.int32))
        sizes.append(packed.sizes + 1)
        words.append(np.fromiter((len(line.split()) for line in own), np.int64, len(own)))
        kept += own if keep else []
    starts = np.cumsum(np.concatenate(sizes))
    return RunningText(np.concatenate(ids), starts, np.concatenate(words), kept if keep else None)


def _frequent(read: Callable[[], Iterable[Line]], least: int, *, lowercase: bool) -> Iterator[str]:
    """The lines without words that occur less often."""

    def words() -> Iterator[list[str]]:
        for _, line in read():
            line = composed(line)
            yield (line.lower() if lowercase else line).split()

    counts: Counter[str] = Counter()
    for several in words():
        counts.update(several)
    for several in words():
        yield " ".join(word for word in several if counts[word] >= least)
