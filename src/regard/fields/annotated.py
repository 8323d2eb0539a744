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
from regard.data.text.normal_form import composed
from regard.data.text.tokenizer import Encoding
from regard.encoders.kept import StateRows
from regard.fields.base import Bad, Field, Report
from regard.fields.relation import RelationField
from regard.fields.tags import TagColumn, TagsField
from regard.fields.text import TextField
from regard.protocols import PAD, Inputs
from regard.system.plain_json import read_json

__all__ = ["AnnotatedColumn", "AnnotatedField", "NamesField", "places_of"]

OUTSIDE = "O"


@dataclass(frozen=True, eq=False)
class AnnotatedColumn:
    """Documents as ids, with the places of their mentions.

    Args:
        ids: pieces.
        places, entities: pieces of mentions, and the concept of each.
        pairs: heads and tails in turn: two numbers a pair.
        features: numbers that describe the pairs of each document (P, F), see `concept_positions`;
            None: they are not wanted.
        cues: of all pairs of each document, see `data.pairs.concept_cues`; None: not wanted.
        states: of all pieces, what an encoder says of each; None: there is none.
    """

    ids: RaggedIds
    places: RaggedIds
    entities: RaggedIds
    pairs: RaggedIds
    features: Sequence[NDArray[np.float32]] | None = None
    cues: Sequence[RaggedIds] | None = None
    states: StateRows | None = None

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
            self.ids.take(indices),
            self.places.take(indices),
            self.entities.take(indices),
            self.pairs.take(indices),
            None if self.features is None else [self.features[i] for i in at],
            None if self.cues is None else [self.cues[i] for i in at],
            None if self.states is None else self.states.take(indices),
        )

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
        lengths, ids = torch.from_numpy(self.ids.sizes_at(indices)), padded(self.ids, PAD)
        if self.states is not None:
            extras["states"] = self.states.padded(indices, ids.shape[1])
        return Inputs(ids, lengths, extras)


class AnnotatedField(TextField):
    """A document with mentions and relations, its text in pieces; see `annotations.documents`."""

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
            RaggedIds.rows(ids),
            RaggedIds.rows(places),
            RaggedIds.rows(entities),
            RaggedIds.rows(pairs),
            features if self.described else None,
            cues if self.num_cues else None,
            self.states(values),
        )


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
        types = sorted({composed(mention.type) for one in values for mention in one.mentions})
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
                kind = composed(mention.type)
                if f"B-{kind}" not in index:
                    report(number, "unseen type", f"{kind!r} is not in the training data")
                    continue
                own = places_of(mention, pieces)
                if not any(tags[place] for place in own):
                    for place in own:
                        mark = "I" if place - 1 in own else "B"
                        tags[place] = index[f"{mark}-{kind}"]
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
                name = " ".join(composed(pieces.text[start:end]).lower().split())
                found.append(Mention(((start, end),), kind, (f"{kind}:{name}",)))
        return found
