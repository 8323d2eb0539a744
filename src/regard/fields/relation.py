"""The relation between two marked concepts of a document."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.annotations.documents import RelationDocument
from regard.data.ragged import RaggedIds
from regard.data.text.normal_form import composed
from regard.errors import RequestError
from regard.fields.base import Field, Report
from regard.fields.label import UNSEEN

__all__ = ["NONE", "RelationColumn", "RelationField", "as_text"]


NONE = ""
"""The name of "no relation", the first class."""


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
                names.add(composed(relation.type))
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
                pair, kind = (relation.head, relation.tail), composed(relation.type)
                if kind not in index:
                    report(number, UNSEEN, f"{kind!r} is not in the training data")
                elif pair not in labels:
                    report(number, "unseen types", f"of the pair {pair[0]} and {pair[1]}")
                if pair in labels:
                    if labels[pair] not in (0, index.get(kind, -1)):
                        report(
                            number,
                            "several relations of a pair",
                            f"{pair[0]} and {pair[1]}: {kind!r} is learned, one before it is not",
                        )
                    labels[pair] = index.get(kind, -1)
            found.append(list(labels.values()))
        return RelationColumn(RaggedIds.rows(found))

    def state(self) -> dict[str, Any]:
        """The relations and the types."""
        return {"relations": self.names, "types": [list(pair) for pair in self.types]}

    def restored(self, state: Mapping[str, Any]) -> "RelationField":
        """With what was saved."""
        types = [(composed(str(head)), composed(str(tail))) for head, tail in state["types"]]
        return self._with([composed(str(name)) for name in state["relations"]], types)

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
    return {name: {composed(m.type) for m in own} for name, own in document.concepts.items()}
