"""Annotated documents: their pieces, the places of their mentions, and the pairs that are asked."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.annotations.documents import Mention, RelationDocument, from_json
from regard.data.pairs.concept_cues import pair_cues
from regard.data.pairs.concept_positions import PLACES, pair_places
from regard.data.ragged import RaggedIds
from regard.data.text.tokenizer import Encoding
from regard.errors import RequestError
from regard.fields.base import Bad, Field, Report
from regard.fields.label import UNSEEN
from regard.fields.tags import TagColumn, TagsField
from regard.fields.text import TextField
from regard.protocols import PAD, Inputs
from regard.system.plain_json import read_json

__all__ = [
    "NONE",
    "AnnotatedColumn",
    "AnnotatedField",
    "NamesField",
    "RelationColumn",
    "RelationField",
    "as_text",
    "places_of",
]

NONE = ""
"""The name of "no relation", the first class."""
OUTSIDE = "O"


@dataclass(frozen=True, eq=False)
class AnnotatedColumn:
    """Documents as ids, with the places of their mentions.

    Args:
        ids: pieces.
        places, entities: pieces of mentions, and the concept of each.
        pairs: heads and tails in turn: two numbers a pair.
        features: numbers that describe the pairs of each document (P, F), see `data.pair_places`;
            None: they are not wanted.
        cues: of each document those of all pairs, see `data.pair_cues`; None: they are not wanted.
    """

    ids: RaggedIds
    places: RaggedIds
    entities: RaggedIds
    pairs: RaggedIds
    features: Sequence[NDArray[np.float32]] | None = None
    cues: Sequence[RaggedIds] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Pieces of each document."""
        return self.ids.sizes

    @property
    def counts(self) -> NDArray[np.int64]:
        """Each document counts once."""
        return np.ones(len(self), np.int64)

    def take(self, indices: NDArray[np.int64]) -> "AnnotatedColumn":
        """Some of the documents."""
        at = indices.tolist()
        return AnnotatedColumn(
            self.ids.take(indices), self.places.take(indices), self.entities.take(indices),
            self.pairs.take(indices),
            None if self.features is None else [self.features[i] for i in at],
            None if self.cues is None else [self.cues[i] for i in at],
        )  # fmt: skip

    def collate(self, indices: NDArray[np.int64]) -> Inputs:
        """Ids (B, T), and what `RelationClassifier` reads as extras."""

        def padded(rows: RaggedIds, fill: int) -> Tensor:
            return torch.from_numpy(rows.padded(indices, fill, fill)[:, :-1])

        extras = {
            "places": padded(self.places, -1),
            "entities": padded(self.entities, -1),
            "pairs": padded(self.pairs, -1).view(len(indices), -1, 2),
        }
        shape = extras["pairs"].shape[:2]
        if self.features is not None:
            extras["features"] = torch.zeros(*shape, len(PLACES))
            for row, at in enumerate(indices.tolist()):
                own = torch.from_numpy(self.features[at])
                extras["features"][row, : len(own)] = own
        if self.cues is not None:
            told = [self.cues[at] for at in indices.tolist()]
            most = max((int(one.sizes.max(initial=0)) for one in told), default=0)
            extras["cues"] = torch.full((*shape, most), -1)
            for row, one in enumerate(told):
                for pair, size in enumerate(one.sizes.tolist()):
                    start = int(one.starts[pair])
                    found = one.flat[start : start + size].astype(np.int64)
                    extras["cues"][row, pair, :size] = torch.from_numpy(found)
        lengths = torch.from_numpy(self.ids.sizes_at(indices))
        return Inputs(padded(self.ids, PAD), lengths, extras)


class AnnotatedField(TextField):
    """A document with mentions and relations, its text in pieces; see `data.documents`."""

    kind: ClassVar[str] = "annotated"
    described: bool = False
    num_cues: int = 0

    def describing(self, features: bool, cues: int) -> "AnnotatedField":
        """With numbers that describe each pair, and with cues of it below a number."""
        made = copy(self)
        made.described, made.num_cues = features, cues
        return made

    def read(self, cell: Any, row: Mapping[str, Any]) -> Any:
        """The document of an object of JSON."""
        try:
            found = from_json(read_json(cell))
        except ValueError as error:
            raise Bad("broken document", str(error)) from None
        if not found.text.strip():
            raise Bad("empty")
        return found

    def written(self, value: Any) -> str:
        """The text of a document."""
        return value.text if isinstance(value, RelationDocument) else str(value)

    def encode(  # type: ignore[override]  # ids alone do not say where the mentions are
        self, values: Sequence[Any], report: Report, fields: Mapping[str, Field], rows: Any = None
    ) -> AnnotatedColumn:
        """The ids of all documents, and the pairs of concepts that their types allow."""
        relation = fields["relation"]
        assert isinstance(relation, RelationField)
        ids, places, entities, pairs = [], [], [], []
        features: list[NDArray[np.float32]] = []
        cues: list[RaggedIds] = []
        for number, one in enumerate(values):
            pieces = self.cut(one.text)
            ids.append(pieces.ids)
            at, owners = [], []
            for entity, (name, mentions) in enumerate(one.concepts.items()):
                own = sorted({place for m in mentions for place in places_of(m, pieces)})
                if not own:
                    report(number, "no pieces", f"the mentions of {name!r} have no token")
                at += own
                owners += [entity] * len(own)
            places.append(at)
            entities.append(owners)
            numbers = {name: i for i, name in enumerate(one.concepts)}
            asked = relation.pairs(one)
            pairs.append([numbers[name] for pair in asked for name in pair])
            if self.described:
                features.append(pair_places(one, asked))
            if self.num_cues:
                cues.append(RaggedIds.rows(pair_cues(one, asked, self.num_cues)))
        return AnnotatedColumn(
            RaggedIds.rows(ids), RaggedIds.rows(places), RaggedIds.rows(entities),
            RaggedIds.rows(pairs), features if self.described else None,
            cues if self.num_cues else None,
        )  # fmt: skip


def places_of(mention: Mention, pieces: Encoding) -> list[int]:
    """The pieces that a mention has letters of."""
    found = []
    for place, (start, end) in enumerate(pieces.offsets):
        while start < end - 1 and pieces.text[start].isspace():  # the blank before a word
            start += 1
        if any(start < stop and first < end for first, stop in mention.spans):
            found.append(place)
    return found


class NamesField(TagsField):
    """A tag for each piece of a document: `B-` and `I-` with the type of the mention, or `O`.

    Of mentions that overlap the longest is tagged, of equally long ones the first.
    """

    kind: ClassVar[str] = "names"

    def read(self, cell: str, row: Mapping[str, Any]) -> Any:
        """The document itself."""
        return row[self.of or "document"]

    def learn(self, values: Sequence[Any]) -> "NamesField":
        """With two tags for each type of mention."""
        made = copy(self)
        types = sorted({mention.type for one in values for mention in one.mentions})
        made.names = [OUTSIDE, *(f"{mark}-{kind}" for kind in types for mark in "BI")]
        return made

    def rows(self) -> Mapping[str, Sequence[str]]:
        """A row for each tag."""
        return {"num_names": self.names}

    def arguments(self) -> dict[str, int]:
        """`num_names`."""
        return {"num_names": len(self.names)}

    def encode(
        self, values: Sequence[Any], report: Report, fields: Mapping[str, Field], rows: Any = None
    ) -> TagColumn:
        """The tags of all pieces."""
        text = fields[self.of or "document"]
        assert isinstance(text, TextField)
        index = {name: i for i, name in enumerate(self.names)}
        found = []
        for number, one in enumerate(values):
            pieces = text.cut(one.text)
            tags = [0] * len(pieces)
            order = sorted(one.mentions, key=lambda m: (-sum(b - a for a, b in m.spans), m.start))
            for mention in order:
                if f"B-{mention.type}" not in index:
                    report(number, "unseen type", f"{mention.type!r} is not in the training data")
                    continue
                own = places_of(mention, pieces)
                if not any(tags[place] for place in own):
                    for place in own:
                        mark = "I" if place - 1 in own else "B"
                        tags[place] = index[f"{mark}-{mention.type}"]
            found.append(tags)
        return TagColumn(RaggedIds.rows(found))

    def mentions(self, tags: Sequence[int], pieces: Encoding) -> list[Mention]:
        """The mentions that tags name; a concept is what is written, in small letters."""
        runs: list[tuple[int, int, str]] = []
        before = ""
        for place, tag in enumerate(tags):
            mark, _, kind = self.names[tag].partition("-")
            if mark == "I" and kind == before:
                runs[-1] = (runs[-1][0], place, kind)
            elif mark in ("B", "I"):
                runs.append((place, place, kind))
            before = kind
        found = []
        for first, last, kind in runs:
            start, end = pieces.offsets[first][0], pieces.offsets[last][1]
            start += len(pieces.text[start:end]) - len(pieces.text[start:end].lstrip())
            if start < end:
                name = " ".join(pieces.text[start:end].lower().split())
                found.append(Mention(((start, end),), kind, (f"{kind}:{name}",)))
        return found


class RelationField(Field):
    """The relation of every pair of concepts that may have one: learned are types and relations.

    Class 0 is "no relation". A pair is asked where the types of its concepts are those of head and
    tail of a relation in training.
    """

    kind: ClassVar[str] = "relation"

    def __init__(self, of: str = "document") -> None:
        super().__init__(target=True, of=of)
        self.names: list[str] = []
        self.types: list[tuple[str, str]] = []

    def read(self, cell: str, row: Mapping[str, Any]) -> Any:
        """The document itself."""
        return row[self.of or "document"]

    def written(self, value: Any) -> str:
        """Relations as `head type tail`, divided by `; `, in the order of the alphabet."""
        return "; ".join(sorted({as_text(one.key) for one in value.relations}))

    def learn(self, values: Sequence[Any]) -> "RelationField":
        """With the relations of the training data and the types of their concepts.

        Raises:
            RequestError: there is no relation.
        """
        names, types = set(), set()
        for one in values:
            kinds = _kinds(one)
            for relation in one.relations:
                names.add(relation.type)
                types |= {(h, t) for h in kinds[relation.head] for t in kinds[relation.tail]}
        if not names:
            raise RequestError("the training documents have no relation: nothing can be learned")
        return self._with([NONE, *sorted(names)], sorted(types))

    @property
    def learned(self) -> bool:
        """Whether the relations are known."""
        return bool(self.names)

    def rows(self) -> Mapping[str, Sequence[str]]:
        """A row for each relation."""
        return {"num_relations": self.names}

    def arguments(self) -> dict[str, int]:
        """`num_relations`, "no relation" among them."""
        return {"num_relations": len(self.names)}

    def pairs(self, document: RelationDocument) -> list[tuple[str, str]]:
        """The pairs of concepts that may have a relation, head first."""
        kinds = _kinds(document)
        found = {
            (head, tail): None
            for first, second in self.types
            for head in kinds
            if first in kinds[head]
            for tail in kinds
            if second in kinds[tail] and head != tail
        }
        return list(found)

    def encode(
        self, values: Sequence[Any], report: Report, fields: Mapping[str, Field], rows: Any = None
    ) -> "RelationColumn":
        """The class of every pair; -1 for a relation that training never had."""
        index = {name: i for i, name in enumerate(self.names)}
        found = []
        for number, one in enumerate(values):
            labels = dict.fromkeys(self.pairs(one), 0)
            for relation in one.relations:
                pair = (relation.head, relation.tail)
                if relation.type not in index:
                    report(number, UNSEEN, f"{relation.type!r} is not in the training data")
                elif pair not in labels:
                    report(number, "unseen types", f"of the pair {pair[0]} and {pair[1]}")
                if pair in labels:
                    if labels[pair] not in (0, index.get(relation.type, -1)):
                        report(
                            number, "several relations of a pair",
                            f"{pair[0]} and {pair[1]}: {relation.type!r} is learned, one before it"
                            " is not",
                        )  # fmt: skip
                    labels[pair] = index.get(relation.type, -1)
            found.append(list(labels.values()))
        return RelationColumn(RaggedIds.rows(found))

    def state(self) -> dict[str, Any]:
        """The relations and the types."""
        return {"relations": self.names, "types": [list(pair) for pair in self.types]}

    def restored(self, state: Mapping[str, Any]) -> "RelationField":
        """With what was saved."""
        types = [(str(head), str(tail)) for head, tail in state["types"]]
        return self._with([str(name) for name in state["relations"]], types)

    def _with(self, names: list[str], types: list[tuple[str, str]]) -> "RelationField":
        made = copy(self)
        made.names, made.types = names, types
        return made


class RelationColumn:
    """The classes of the pairs of each document; -1: nothing is learned from it."""

    def __init__(self, labels: RaggedIds) -> None:
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Pairs of each document."""
        return self.labels.sizes

    @property
    def counts(self) -> NDArray[np.int64]:
        """Each document counts once."""
        return np.ones(len(self), np.int64)

    def take(self, indices: NDArray[np.int64]) -> "RelationColumn":
        """Those of some documents."""
        return RelationColumn(self.labels.take(indices))

    def collate(self, indices: NDArray[np.int64]) -> Tensor:
        """One after the other: (P,) int64."""
        return torch.from_numpy(self.labels.take(indices).flat.astype(np.int64))


def as_text(key: tuple[str, str, str]) -> str:
    """A relation as `head type tail`; blanks and semicolons inside become `_`."""
    kind, head, tail = ("_".join(part.replace(";", "_").split()) for part in key)
    return f"{head} {kind} {tail}"


def _kinds(document: RelationDocument) -> dict[str, set[str]]:
    """The types of each concept's mentions."""
    return {name: {m.type for m in own} for name, own in document.concepts.items()}
