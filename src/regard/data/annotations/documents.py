"""Documents with what is annotated in them: mentions of concepts, and relations between concepts.

`regard.data.formats.documents` reads and writes them as PubTator, BioC XML and JSON lines.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.data.text.normal_form import composed

__all__ = [
    "Mention",
    "Relation",
    "RelationDocument",
    "as_line",
    "check_relations",
    "checked_spans",
    "from_json",
    "to_json",
]


@dataclass(frozen=True, order=True)
class Mention:
    """A name in a text, and which concepts it stands for.

    Args:
        spans: where it stands, start and end in characters; several where it has gaps.
        type: `Chemical`, `Disease`.
        concepts: identifiers; several for "ocular and auditory toxicity", none where it is unknown.
        note: what the file says of it beside this, kept for the writer.
    """

    spans: tuple[tuple[int, int], ...]
    type: str
    concepts: tuple[str, ...] = ()
    note: str = ""

    @property
    def start(self) -> int:
        """Where its first piece begins."""
        return self.spans[0][0]

    @property
    def end(self) -> int:
        """Where its last piece ends."""
        return self.spans[-1][1]

    def of(self, text: str) -> str:
        """Its words, with a blank for each gap."""
        return " ".join(text[start:end] for start, end in self.spans)


@dataclass(frozen=True, order=True)
class Relation:
    """A relation between two concepts of a document.

    Args:
        probability: where a model found it; None where it is annotated.
        note: what the file says of it beside this, kept for the writer.
    """

    type: str
    head: str
    tail: str
    probability: float | None = None
    note: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What two relations are compared by, the type in NFC."""
        return composed(self.type), self.head, self.tail


@dataclass(frozen=True)
class RelationDocument:
    """A text with mentions and relations.

    Args:
        id: its name.
        text: all of it.
        mentions: in the order of the file; they may overlap and stand inside each other.
        relations: between concepts.
        passages: where each passage begins (the title, the abstract); the character before is a
            blank that stands for the cut.

    Example:
        >>> aspirin = Mention(((0, 7),), "Chemical", ("D1",))
        >>> told = RelationDocument("1", "Aspirin. Rash.", (aspirin,))
        >>> told.mentions[0].of(told.text), list(told.concepts)
        ('Aspirin', ['D1'])
    """

    id: str
    text: str
    mentions: tuple[Mention, ...] = ()
    relations: tuple[Relation, ...] = ()
    passages: tuple[int, ...] = (0,)

    @property
    def concepts(self) -> dict[str, list[Mention]]:
        """The mentions of each concept, in the order of their first ones."""
        found: dict[str, list[Mention]] = {}
        for mention in self.mentions:
            for concept in mention.concepts:
                found.setdefault(concept, []).append(mention)
        return found

    @property
    def parts(self) -> list[str]:
        """The text of each passage."""
        ends = [start - 1 for start in self.passages[1:]] + [len(self.text)]
        return [self.text[a:b] for a, b in zip(self.passages, ends, strict=True)]

    def with_relations(self, relations: Sequence[Relation]) -> "RelationDocument":
        """The same document with other relations."""
        return replace(self, relations=tuple(relations))


def from_json(value: Any) -> RelationDocument:
    """The document of one JSON object, as `to_json` writes it; only `text` has to be there.

    Raises:
        ValueError: what is wrong, and where.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("text"), str):
        raise ValueError("expected an object with a text under 'text'")
    text = value["text"]
    mentions = [_mention(one, n, text) for n, one in enumerate(_list(value, "mentions"))]
    relations = [_relation(one, n) for n, one in enumerate(_list(value, "relations"))]
    passages = value.get("passages", [0])
    rising = isinstance(passages, list) and all(type(p) is int for p in passages)
    if not rising or passages[:1] != [0] or passages != sorted({*passages}):
        raise ValueError(f"passages: expected numbers that rise from 0, got {passages!r}")
    if passages[-1] > len(text):
        raise ValueError(f"passages: {passages[-1]} is behind the text of {len(text)} characters")
    found = RelationDocument(
        str(value.get("id", "")), text, tuple(mentions), tuple(relations), tuple(passages)
    )
    check_relations(found)
    return found


def to_json(document: RelationDocument) -> dict[str, Any]:
    """Plain values: `id`, `text`, `passages`, `mentions` and `relations`."""
    mentions = [
        {
            "spans": [list(span) for span in one.spans],
            "text": one.of(document.text),
            "type": one.type,
            "concepts": list(one.concepts),
            **({"note": one.note} if one.note else {}),
        }
        for one in document.mentions
    ]
    relations = [
        {
            "type": one.type,
            "head": one.head,
            "tail": one.tail,
            **({} if one.probability is None else {"probability": round(one.probability, 4)}),
            **({"note": one.note} if one.note else {}),
        }
        for one in document.relations
    ]
    return {
        "id": document.id,
        "text": document.text,
        "passages": list(document.passages),
        "mentions": mentions,
        "relations": relations,
    }


def check_relations(document: RelationDocument) -> None:
    """Refuse relations of concepts that have no mention.

    Raises:
        ValueError: naming the concept.
    """
    known = document.concepts
    for one in document.relations:
        for concept in (one.head, one.tail):
            if concept not in known:
                raise ValueError(f"the relation {one.type} names {concept!r}, which no mention has")


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key, [])
    if not isinstance(found, list):
        raise ValueError(f"expected a list under {key!r}")
    return found


def _mention(one: Any, number: int, text: str) -> Mention:
    place = f"mention {number + 1}"
    if not isinstance(one, Mapping) or not isinstance(one.get("type"), str):
        raise ValueError(f"{place}: expected an object with 'spans' and 'type'")
    spans = one.get("spans") or [[one.get("start"), one.get("end")]]
    if not isinstance(spans, list):
        raise ValueError(f"{place}: expected a list under 'spans'")
    concepts = one.get("concepts", [])
    if not isinstance(concepts, list) or not all(isinstance(c, str) for c in concepts):
        raise ValueError(f"{place}: expected a list of texts under 'concepts'")
    return Mention(
        checked_spans(spans, text, place), one["type"], tuple(concepts), str(one.get("note", ""))
    )


def checked_spans(spans: Any, text: str, place: str) -> tuple[tuple[int, int], ...]:
    """Spans in their order.

    Raises:
        ValueError: one is not inside the text, or is empty.
    """
    found = []
    for span in spans:
        whole = isinstance(span, (list, tuple)) and [type(x) for x in span] == [int, int]
        if not whole or not 0 <= span[0] < span[1] <= len(text):
            raise ValueError(f"{place}: {span!r} is no part of a text of {len(text)} characters")
        found.append((span[0], span[1]))
    return tuple(sorted(found))


def _relation(one: Any, number: int) -> Relation:
    keys = ("type", "head", "tail")
    if not isinstance(one, Mapping) or not all(isinstance(one.get(k), str) for k in keys):
        raise ValueError(f"relation {number + 1}: expected texts under 'type', 'head' and 'tail'")
    kind, head, tail = (one[key] for key in keys)
    return Relation(kind, head, tail, note=str(one.get("note", "")))


def as_line(document: RelationDocument) -> str:
    """A document as one line of JSON."""
    return json.dumps(to_json(document), ensure_ascii=False)
