"""Questions about documents: from the field's formats and from single inputs to words and places.

A document's words are places in its text, so that an answer is always given as it was written.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from regard.data.files import registry
from regard.data.files.records import objects
from regard.data.files.row import Row
from regard.data.formats.cbt import BLANK
from regard.data.formats.squad import answer_start
from regard.data.problems import Problems
from regard.data.text.normal_form import Composed, composed
from regard.data.text.words import INNER, LETTER
from regard.errors import RequestError, nearest
from regard.system.plain_json import read_json

__all__ = ["Question", "blocks", "format_of", "parse", "read"]

FIELDS = {
    "cbt": ("document", "query", "answer", "candidates"),
    "squad": ("document", "query", "answers", "starts"),
    "jsonl": ("document", "query", "answer", "answers", "starts", "candidates"),
}
"""What is read from each format."""

_NEEDED = ("document", "query")
_ENDINGS = {".txt": "cbt", ".json": "squad"}
_WORD = regex.compile(rf"(?:{LETTER}|_)+(?:(?:{INNER}|-)(?:{LETTER}|_)+)*|\S\p{{M}}*")
_NUMBERED = re.compile(r"\d+ ")
_GROUP = "split by"
APART = "|||"
"""What stands between document, query and candidates in one line of input."""


@dataclass(frozen=True)
class Question:
    """A document and what is asked about it.

    Args:
        text: the document.
        places: start and end of each of its words in `text`: (words, 2).
        query: its words.
        answers: every right answer, the trained one first; none where unknown.
        starts: where each answer begins in `text`; -1 for one that is no piece of it.
        candidates: what may be answered; none: anything in the document.
        given: what a user gave, or the query.
        group: what stays in one split: the article, the document, or the value of a key.
    """

    text: str
    places: NDArray[np.int32]
    query: list[str]
    answers: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)
    given: str = ""
    file: str = ""
    line: int = 0
    group: str = ""

    @property
    def words(self) -> list[str]:
        """The document's."""
        return [self.text[a:b] for a, b in self.places.tolist()]

    def span(self) -> tuple[int, int] | None:
        """The first and the last word of the first answer that is a piece of the document."""
        for start, answer in zip(self.starts, self.answers, strict=True):
            end = start + len(answer)
            inside = np.flatnonzero((self.places[:, 0] < end) & (self.places[:, 1] > start))
            if start >= 0 and len(inside):
                return int(inside[0]), int(inside[-1])
        return None

    def piece(self, first: int, last: int) -> str:
        """The text from one word to another."""
        return self.text[self.places[first, 0] : self.places[last, 1]]


def format_of(path: str | Path) -> str:
    """The format that a file's name tells: `.txt` CBT, `.json` SQuAD, `.jsonl`; packed or not.

    Raises:
        RequestError: another ending.
    """
    found = registry.format_of(path, _ENDINGS)
    if found not in FIELDS:
        raise RequestError(
            f"{path}: no format for reading has this ending; expected .txt (cbt), .json (squad) or "
            ".jsonl"
        )
    return found


def read(
    path: Path,
    problems: Problems,
    *,
    format: str | None = None,
    columns: Mapping[str, str | int] | None = None,
    by: str = "",
) -> Iterator[Question]:
    """The questions of a file; what is broken is reported with its line and left out.

    Args:
        by: a key whose value groups questions; "": those about an article of SQuAD are a group, or
            those about a document.

    Raises:
        RequestError: no such file, format or column, or a file of another format.
    """
    chosen = format or format_of(path)
    if chosen not in FIELDS:
        raise RequestError(f"data.format: no {chosen!r} for reading: {nearest(chosen, FIELDS)}")
    named = {name: composed(str((columns or {}).get(name, name))) for name in FIELDS[chosen]}
    if by or chosen == "squad":
        named[_GROUP] = by or "title"
    if chosen == "jsonl":
        rows = _jsonl(path, named, problems)
    else:
        rows = registry.read(path, named, chosen, problems=problems)
    for row in rows:
        try:
            found = question(
                dict(row.fields), tokenized=chosen == "cbt", file=row.file, line=row.line
            )
            yield replace(found, group=str(row.fields.get(_GROUP) or found.text))
        except ValueError as error:
            problems.add(row.file, row.line, "broken question", str(error))
    problems.report(str(path))


def parse(text: str) -> Question:
    """One input: a JSON object, a question of a CBT file, or `document ||| query ||| a | b`.

    Raises:
        ValueError: it is not one of these, or something is missing.
    """
    stripped = text.strip()
    if stripped.startswith("{"):
        try:
            fields = read_json(stripped)
        except ValueError as error:
            raise ValueError(f"not JSON: {error}") from None
        return question(fields, given=text)
    if _NUMBERED.match(stripped) and "\n" in stripped:
        *story, last = stripped.splitlines()
        query, *others = last.partition(" ")[2].split("\t")
        candidates = others[-1].strip() if len(others) > 1 else ""
        document = "\n".join(line.partition(" ")[2] for line in story)
        fields = {"document": document, "query": query, "candidates": candidates}
        return question(fields, tokenized=True, given=text)
    document, *parts = (part.strip() for part in text.split(APART))
    if not 1 <= len(parts) <= 2:
        raise ValueError(
            f"expected a JSON object with document and query, or document {APART} query {APART} "
            f"candidates; got {stripped[:40]!r}"
        )
    fields = {"document": document, "query": parts[0], "candidates": "".join(parts[1:])}
    return question(fields, given=text)


def blocks(given: Iterator[str]) -> Iterator[str]:
    """Join the numbered lines of a CBT file to one input a question; other lines are one each."""
    story: list[str] = []
    after = False  # the blank line behind a question belongs to it
    for text in given:
        numbered = _NUMBERED.match(text) is not None
        if story and (not numbered or (text.startswith("1 ") and "\t" not in text)):
            yield "\n".join(story)
            story, after = [], True
        if numbered:
            story.append(text)
            after = "\t" in text
            if after:
                yield "\n".join(story)
                story = []
        elif text.strip() or not after:
            yield text
            after = False
    if story:
        yield "\n".join(story)


def question(
    fields: Mapping[str, Any],
    *,
    tokenized: bool = False,
    given: str = "",
    file: str = "",
    line: int = 0,
) -> Question:
    """A question of named fields.

    Args:
        fields: document and query; answer or answers, starts, candidates where there are any.
        tokenized: words are apart by white space; else marks are words of their own.

    Raises:
        ValueError: no document, no query, or something that is no text.
    """
    for name in _NEEDED:
        if not isinstance(fields.get(name), str):
            raise ValueError(f"no text at {name!r}")
    form, query = Composed(fields["document"]), composed(fields["query"])
    text = form.text
    cut = str.split if tokenized else _WORD.findall
    if tokenized:  # at single spaces, where the ends of words follow from their lengths
        text = " ".join(text.split())
        sizes = np.fromiter(map(len, text.split()), np.int32)
        ends = np.cumsum(sizes + 1, dtype=np.int32) - 1
        places = np.stack([ends - sizes, ends], 1)
    else:
        places = np.array([found.span() for found in _WORD.finditer(text)], np.int32)
    if not len(places):
        raise ValueError("the document is empty")
    words = [w for part in re.split(f"({BLANK})", query) for w in cut(part)]
    if not words:
        raise ValueError("the query is empty")
    answers = _texts(fields, "answers") or _texts(fields, "answer")
    starts = fields.get("starts") or []
    if isinstance(starts, str):
        starts = read_json(starts)
    if not starts:
        starts = [None] * len(answers)
    elif len(starts) != len(answers) or not all(isinstance(s, int) for s in starts):
        raise ValueError(f"expected a whole number for each of {len(answers)} answers at 'starts'")
    candidates = list(dict.fromkeys(_texts(fields, "candidates", "|")))
    starts = [_start(form, a, s) for a, s in zip(answers, starts, strict=True)]
    return Question(text, places, words, answers, starts, candidates, given or query, file, line)


def _start(form: Composed, answer: str, told: int | None) -> int:
    """Where an answer begins in the composed text; see `squad.answer_start`."""
    if told is not None and told < 0:
        return -1
    if told is not None and form.changed:
        told = form.from_raw(told)
    return answer_start(form.text, answer, told)


def _texts(fields: Mapping[str, Any], name: str, between: str = "") -> list[str]:
    """One text, several, several in JSON, or several with something between."""
    value = fields.get(name)
    if isinstance(value, str) and name == "answers":
        value = read_json(value)
    if isinstance(value, str):
        value = value.split(between) if between else [value]
    if not isinstance(value, (list, tuple, type(None))):
        raise ValueError(f"expected text or a list of texts at {name!r}, got {value!r}")
    if not all(isinstance(one, str) for one in value or ()):
        raise ValueError(f"expected texts at {name!r}, got {value!r}")
    return [composed(v.strip()) for v in value or () if v.strip()]


def _jsonl(path: Path, named: Mapping[str, str], problems: Problems) -> Iterator[Row]:
    """JSON objects whose values need not be texts: candidates and answers are lists."""
    file, keys, found = str(path), dict[str, None](), False
    for number, value in objects(path, problems):
        keys.update(dict.fromkeys(value))
        there: dict[str, Any] = {f: value[key] for f, key in named.items() if key in value}
        if lacking := [named[f] for f in (*_NEEDED, _GROUP) if f in named and f not in there]:
            problems.add(file, number, "lacks a column", ", ".join(map(repr, lacking)))
            continue
        found = True
        yield Row(there, file, number)
    if keys and not found:
        needed = [named[f] for f in (*_NEEDED, _GROUP) if f in named]
        missing = next((one for one in needed if one not in keys), needed[0])
        both = "both " if len(needed) == 2 else ""
        raise RequestError(
            f"{file}: no line has {both}{' and '.join(map(repr, needed))}; there are "
            f"{', '.join(map(repr, keys))}: {nearest(missing, keys)}"
        )
