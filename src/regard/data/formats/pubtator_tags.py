"""The names in documents as tags of words: PubTator files as rows for a tagger.

    227508|t|Naloxone reverses the effect of clonidine.
    227508 <tab> 0 <tab> 8 <tab> Naloxone <tab> Chemical <tab> D009270

    text  Naloxone   reverses the effect of clonidine  .
    tags  B-Chemical O        O   O      O  B-Chemical O

A row is a sentence, with the line of the title or abstract that it stands in. Columns: `text`, the
words as the tokenizer `wordpunct` cuts them, as they are written; `tags` in BIO, of the mentions'
types; `id` of the document. A sentence ends behind `.`, `!` or `?` and white space, where no small
letter follows, and with the title.

Words have one tag each, so some mentions are told otherwise, and counted: one that begins or ends
within a word has the whole word; of two that overlap the longer one stays, of equal ones the first;
one that reaches into the next sentence is cut at the end of its own.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.annotations.documents import Mention, RelationDocument
from regard.data.annotations.tag_schemes import TagSpan, lenient_spans, tags_of
from regard.data.files.row import Column, Row
from regard.data.formats import pubtator
from regard.data.formats._column_blocks import Edit, tags_for
from regard.data.formats.base import check_columns, one_file
from regard.data.problems import Problems
from regard.data.text.plain_words import word_places

__all__ = ["COLUMNS", "TaggedDocument", "TaggedSentence", "edits", "read", "tagged"]

log = logging.getLogger(__name__)

COLUMNS = ("text", "tags", "id")
_END = re.compile(r"""(?<=[.!?])["'”’)\]]*\s+(?=["'“‘(\[]*[^\W_a-z])""")


@dataclass(frozen=True)
class TaggedSentence:
    """The words of a sentence, and the names among them.

    Args:
        places: of each word, start and end in characters of the document.
        spans: of names: first word, the word behind the last, type.
        passage: which passage of the document it stands in.
    """

    places: Sequence[tuple[int, int]]
    spans: Sequence[TagSpan]
    passage: int

    @property
    def tags(self) -> list[str]:
        """A tag of scheme `bio` for each word."""
        return tags_of(self.spans, len(self.places))


@dataclass(frozen=True)
class TaggedDocument:
    """A document in sentences.

    Args:
        within: mentions that begin or end within a word.
        overlapping: mentions left out for a longer one.
        cut: mentions that reach into the next sentence.
    """

    sentences: Sequence[TaggedSentence]
    within: int = 0
    overlapping: int = 0
    cut: int = 0


_TOLD = {
    "within": "begin or end within a word and have the whole word",
    "overlapping": "overlap a longer one and are left out",
    "cut": "reach into the next sentence and are cut there",
}


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read the sentences of a PubTator file; `header` has no meaning here.

    Raises:
        RequestError: a column that is not in `COLUMNS`.
    """
    path = one_file(path, "a PubTator file is one file")
    check_columns("PubTator files", columns, COLUMNS)
    file, count = str(path), dict.fromkeys(_TOLD, 0)
    for _, lines, document in _documents(path, problems):
        found = tagged(document)
        for name in count:
            count[name] += getattr(found, name)
        for sentence in found.sentences:
            cells = {
                "text": " ".join(document.text[a:b] for a, b in sentence.places),
                "tags": " ".join(sentence.tags),
                "id": document.id,
            }
            own = {name: cells[str(column)] for name, column in columns.items()}
            yield Row(own, file, lines[sentence.passage])
    for name, number in count.items():
        if number:
            log.warning("%s: %d names %s", file, number, _TOLD[name])


def edits(
    path: str | Path, column: Column, predictions: Mapping[int, str], problems: Problems
) -> Iterator[Edit]:
    """For each document what its predicted tags change; see `formats.write_back`.

    The prediction of a title or an abstract has the tags of all its sentences. A mention that is
    in the file as it is predicted keeps its line, another one has no concept (-1); relations stay
    as they are. An I- tag that continues nothing begins a name.
    """
    check_columns("PubTator files", {"tags": column}, ("tags",))
    for block, lines, document in _documents(path, problems):
        old = tagged(document).sentences
        named = sorted({lines[sentence.passage] for sentence in old})
        found = [m for n in named if n not in predictions for m in _within(document, lines, n)]
        same = True
        for line in (n for n in named if n in predictions):
            own = [sentence for sentence in old if lines[sentence.passage] == line]
            tags = tags_for(str(path), line, sum(len(one.places) for one in own), predictions)
            for sentence in own:
                told, tags = tags[: len(sentence.places)], tags[len(sentence.places) :]
                same = same and told == sentence.tags
                found += [
                    Mention(((sentence.places[a][0], sentence.places[b - 1][1]),), label)
                    for a, b, label in lenient_spans(told)
                ]
        yield named, {} if same else _rewritten(block, max(lines), document, found)


def _rewritten(
    block: pubtator.Block, last: int, document: RelationDocument, found: Sequence[Mention]
) -> dict[int, str | None]:
    """The lines of a document with other mentions behind its last line of text."""
    texts = {number: line for number, line in block if number <= last}
    changed: dict[int, str | None] = {}
    known: dict[tuple[int, int, str], str] = {}
    for number, line in block:
        cells = line.split("\t")
        if number > last and len(cells) > 4 and cells[1].isdecimal() and cells[2].isdecimal():
            changed[number] = None
            place = pubtator.placed(document.text, int(cells[1]), int(cells[2]), cells[3])
            known.setdefault((*place, cells[4].strip()), line)
    new = [texts[last]]
    for one in sorted(found, key=lambda m: (m.start, m.end)):
        text = document.text[one.start : one.end]
        cells = [document.id, str(one.start), str(one.end), text, one.type, "-1"]
        new.append(known.get((one.start, one.end, one.type), "\t".join(cells)))
    return dict(sorted({**changed, last: "\n".join(new)}.items()))


def _documents(
    path: str | Path, problems: Problems
) -> Iterator[tuple[pubtator.Block, list[int], RelationDocument]]:
    """The lines of each document, the number of the line of each passage, and the document."""
    for block in pubtator.blocks(path, problems):
        for document in pubtator.of_block(str(path), block, problems):
            at = {h[2]: n for n, text in reversed(block) if (h := pubtator.TEXT.match(text))}
            yield block, [at.get("t", block[0][0]), at.get("a", block[0][0])], document
    problems.report(str(path))


def _within(document: RelationDocument, lines: Sequence[int], line: int) -> list[Mention]:
    """The mentions of the passage that stands in a line."""
    starts = [*document.passages, len(document.text) + 1]
    passage = list(lines).index(line)
    return [m for m in document.mentions if starts[passage] <= m.start < starts[passage + 1]]


def tagged(document: RelationDocument) -> TaggedDocument:
    """The sentences of a document with the names in them, and what was told otherwise.

    Example:
        >>> pain = Mention(((11, 15),), "Disease")
        >>> found = tagged(RelationDocument("1", "Rats had no pain. None.", (pain,)))
        >>> [sentence.tags for sentence in found.sentences]
        [['O', 'O', 'O', 'B-Disease', 'O'], ['O', 'O']]
    """
    kept, overlapping = _apart(document.mentions)
    made: list[TaggedSentence] = []
    within = cut = 0
    rest = list(kept)
    for passage, start, end in _sentences(document):
        places = [(start + a, start + b) for a, b in word_places(document.text[start:end])]
        places = [piece for place in places for piece in _parts(document.text, *place)]
        spans: list[TagSpan] = []
        while rest and rest[0].start < end:
            one = rest.pop(0)
            words = [i for i, (a, b) in enumerate(places) if a < one.end and one.start < b]
            words = [i for i in words if not spans or i >= spans[-1][1]]
            if not words:
                overlapping += 1
                continue
            cut += one.end > end
            left, right = places[words[0]][0], places[words[-1]][1]
            within += left != one.start or (one.end <= end and right != one.end)
            spans.append((words[0], words[-1] + 1, one.type))
        if places:
            made.append(TaggedSentence(places, spans, passage))
    return TaggedDocument(made, within, overlapping, cut)


def _apart(mentions: Sequence[Mention]) -> tuple[list[Mention], int]:
    """Those that do not overlap, from left to right, and how many others there are."""
    kept: list[Mention] = []
    for one in sorted(mentions, key=lambda m: (m.start - m.end, m.start)):
        if all(one.end <= other.start or other.end <= one.start for other in kept):
            kept.append(one)
    return sorted(kept, key=lambda m: m.start), len(mentions) - len(kept)


def _sentences(document: RelationDocument) -> Iterator[tuple[int, int, int]]:
    """The passage, the start and the end of each sentence."""
    ends = [*document.passages[1:], len(document.text)]
    for passage, (start, end) in enumerate(zip(document.passages, ends, strict=True)):
        for found in _END.finditer(document.text, start, end):
            yield passage, start, found.end()
            start = found.end()
        yield passage, start, end


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A word without the hyphens in it: names often end at one, as in "lidocaine-induced"."""
    for found in re.finditer(r"-+|[^-]+", text[start:end]):
        yield start + found.start(), start + found.end()
