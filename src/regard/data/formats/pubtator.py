"""PubTator: title and abstract, then a line for each mention and each relation of a document.

    227508|t|Naloxone reverses …
    227508|a|In unanesthetized …
    227508 <tab> 0 <tab> 8 <tab> Naloxone <tab> Chemical <tab> D009270
    227508 <tab> CID <tab> D008750 <tab> D007022

A blank line ends a document. Offsets count characters of title, one blank and abstract. A concept
of `-1` or `-` is unknown; several are divided by `|` or `,`. A further column of a mention or a
relation (as BioRED has one) is kept as a note.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.annotations.documents import Mention, Relation, RelationDocument
from regard.data.files.lines import lines
from regard.data.problems import Problems
from regard.data.text.normal_form import Composed, composed
from regard.errors import RequestError

__all__ = ["TEXT", "Block", "blocks", "documents", "of_block", "parse", "placed", "written"]

TEXT = re.compile(r"([^|\t\n]+)\|([a-z])\|")
"""How a line of text begins."""
Block = list[tuple[int, str]]
UNKNOWN = ("", "-", "-1")
_VARIANT = re.compile(r"[a-z]?\|(?:SUB|DEL|INS|INDEL|DUP|FS|Allele|CNV)\|", re.IGNORECASE)
"""How the name of a variant begins, as tmVar writes them: `c|SUB|C|677|T`."""


def documents(path: str | Path, problems: Problems) -> Iterator[tuple[int, RelationDocument]]:
    """The documents of a file with the number of their first line.

    A broken line is reported and left out; a document without a text line is left out whole.
    """
    for block in blocks(path, problems):
        for one in of_block(str(path), block, problems):
            yield block[0][0], one
    problems.report(str(path))


def blocks(path: str | Path, problems: Problems) -> Iterator[Block]:
    """The lines of each document with their numbers."""
    block: Block = []
    for number, text in lines(path, problems):
        if text is None:
            continue
        head = TEXT.match(text)
        begins = head is not None and head[2] == "t"  # maybe without a blank line before it
        if block and (begins or not text.strip()):
            yield block
            block = []
        if text.strip():
            block.append((number, text))
    if block:
        yield block


def parse(block: Sequence[str]) -> RelationDocument:
    """The document of some lines.

    Raises:
        ValueError: what is wrong with the first broken one.
    """
    found = Problems(shown=0)
    made = list(of_block("", list(enumerate(block, 1)), found))
    for one in found:
        raise ValueError(f"line {one.line}: {one.what}{f' ({one.detail})' if one.detail else ''}")
    return made[0]


def written(found: Sequence[RelationDocument]) -> str:
    """The lines of some documents, with a blank one behind each.

    Raises:
        RequestError: a mention with a gap, a line break in a text, or more than two passages.
    """
    return "".join(_lines(one) + "\n" for one in found)


def of_block(file: str, block: Block, problems: Problems) -> Iterator[RelationDocument]:
    """The document of its lines, none where there is no text among them."""
    texts: dict[str, str] = {}
    rest: list[tuple[int, str]] = []
    name = ""
    for number, line in block:
        told = TEXT.match(line)
        if told and not name:
            name = told[1].strip()
        if told and told[2] in ("t", "a") and told[2] not in texts:
            texts[told[2]] = line[told.end() :]
        elif told:
            problems.add(
                file, number, "broken line", f"a second |{told[2]}| or no title, no abstract"
            )
        else:
            rest.append((number, line))
    if not "".join(texts.values()).strip():
        problems.add(file, block[0][0], "no text", "expected a line ID|t|title or ID|a|abstract")
        return
    title, abstract = texts.get("t", ""), texts.get("a")
    text = title if abstract is None else f"{title} {abstract}"
    passages = (0,) if abstract is None else (0, len(title) + 1)
    mentions: list[Mention] = []
    relations: list[tuple[int, Relation]] = []
    for number, line in rest:
        cells = line.split("\t")
        try:
            if cells[0].strip() != name:
                raise ValueError(f"it is of {cells[0][:20]!r}, and the document is {name!r}")
            if len(cells) == 4 or (len(cells) == 5 and not cells[1].strip().isdecimal()):
                kind, head, tail = (cell.strip() for cell in cells[1:4])
                note = cells[4].strip() if len(cells) == 5 else ""
                relations.append((number, Relation(kind, head, tail, note=note)))
            else:
                mentions.append(_mention(cells, text))
        except ValueError as error:
            problems.add(file, number, "broken line", str(error))
    known = {concept for one in mentions for concept in one.concepts}
    kept = []
    for number, one in relations:
        if missing := [c for c in (one.head, one.tail) if c not in known]:
            problems.add(file, number, "unknown concept", f"no mention has {missing[0]!r}")
        else:
            kept.append(one)
    yield RelationDocument(name, text, tuple(mentions), tuple(kept), passages)


def _mention(cells: list[str], text: str) -> Mention:
    if len(cells) not in (5, 6, 7):
        raise ValueError(f"expected 4 cells (a relation) or 5 to 7 (a mention), got {len(cells)}")
    if not (cells[1].strip().isdecimal() and cells[2].strip().isdecimal()):
        raise ValueError(f"expected numbers for start and end, got {cells[1]!r} and {cells[2]!r}")
    start, end = int(cells[1]), int(cells[2])
    if not start < end <= len(text):
        raise ValueError(f"{start} to {end} is no part of a text of {len(text)} characters")
    start, end = placed(text, start, end, cells[3])
    if text[start:end] != cells[3] and composed(text[start:end]) != composed(cells[3]):
        raise ValueError(f"{start} to {end} is {text[start:end]!r}, and the line says {cells[3]!r}")
    told = cells[5].strip() if len(cells) > 5 else ""
    concepts = tuple(dict.fromkeys(c for c in _concepts(told) if c not in UNKNOWN))
    return Mention(((start, end),), cells[4].strip(), concepts, "\t".join(cells[6:]))


def _concepts(told: str) -> list[str]:
    """The concepts of a cell, between `|` or commas; `|` in the name of a variant is part of it."""
    each = ([one] if _VARIANT.match(one) else one.split("|") for one in told.split(","))
    return [concept for several in each for concept in several]


def _written(concepts: Sequence[str]) -> str:
    return ("," if any("|" in one for one in concepts) else "|").join(concepts)


def placed(text: str, start: int, end: int, said: str) -> tuple[int, int]:
    """A span in places of the text; its own may count in the text's other normal form."""
    if text[start:end] == said or text.isascii():
        return start, end
    form = Composed(text)
    fits = form.changed and end <= len(form.text) and form.text[start:end] == composed(said)
    return form.to_raw(start, end) if fits else (start, end)


def _lines(one: RelationDocument) -> str:
    parts = one.parts
    if len(parts) > 2 or any("\n" in part for part in parts):
        raise RequestError(
            f"document {one.id!r}: PubTator has a title and an abstract of one line each; "
            "write JSON lines or BioC"
        )
    name = one.id or "0"
    out = [f"{name}|{kind}|{part}" for kind, part in zip("ta", parts, strict=False)]
    for mention in one.mentions:
        if len(mention.spans) > 1:
            raise RequestError(
                f"document {one.id!r}: {mention.of(one.text)!r} has a gap, and mentions of "
                "PubTator have none; write JSON lines or BioC"
            )
        cells = [
            name,
            str(mention.start),
            str(mention.end),
            mention.of(one.text),
            mention.type,
            _written(mention.concepts) or "-1",
            *([mention.note] if mention.note else []),
        ]
        out.append("\t".join(cells))
    for relation in one.relations:
        out.append("\t".join([name, *relation.key, *filter(None, [relation.note])]))
    return "\n".join(out) + "\n"
