"""Parts of the task of relations: how pairs are sampled, the threshold, and what is answered."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from regard.data.annotations.documents import Relation, RelationDocument, to_json
from regard.data.dataset import Table
from regard.data.formats.documents import WRITERS
from regard.data.text.count_vectors import count_vectors
from regard.data.text.normal_form import composed
from regard.fields import Field
from regard.fields.relation import RelationField
from regard.metrics.relations import hypernyms
from regard.protocols import PAD
from regard.tasks.prediction import Prediction

__all__ = [
    "Candidates",
    "FoundRelations",
    "best_relation",
    "candidates",
    "from_counts",
    "keys_of",
    "leave_out_hypernyms",
]


def from_counts(weight: Tensor, train: Any, scale: float) -> None:
    """Give a model the vectors of its words or pieces that their neighbors in the texts make."""
    ids = train.columns["document"].ids
    weight.copy_(count_vectors([ids[i] for i in range(len(ids))], *weight.shape) * scale)
    weight[PAD] = 0.0


@dataclass(frozen=True, eq=False)
class FoundRelations(Prediction):
    """The relations of a document.

    Args:
        document: the input with the relations that were found, and with the mentions that were
            named where it had none.
        pairs: every pair that was asked, with its best relation and the probability of it.
        format: the input's: `pubtator`, `jsonl` or "" for a bare text.
    """

    document: RelationDocument | None = None
    pairs: tuple[Relation, ...] = ()
    format: str = ""

    @property
    def line(self) -> str:
        """In the format that the input came in; of a bare text the relations alone."""
        if self.document is None or not self.format:
            return super().line
        return WRITERS[self.format]([self.document]).removesuffix("\n")

    def as_json(self) -> dict[str, Any]:
        """As every prediction, and the document."""
        told = {} if self.document is None else {"document": to_json(self.document)}
        return {**super().as_json(), **told}


def best_relation(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Of each pair the likeliest relation beside none, and the probability of it."""
    probabilities = logits.double().softmax(-1)
    best = probabilities[:, 1:].max(-1)
    return best.indices + 1, best.values


Candidates = tuple[np.ndarray, np.ndarray, int]
"""Probability of the best relation of each pair, whether it is true, and true relations."""


def candidates(
    model: Any, batches: Iterable[Any], documents: Sequence[RelationDocument]
) -> Candidates:
    """What a model would say of the pairs of some documents, were there no threshold."""
    scores, right = [], []
    for batch in batches:
        best, probability = best_relation(model(batch["document"]).logits)
        scores.append(probability.cpu().numpy())
        right.append((best == batch["relation"]).cpu().numpy())
    true = sum(len({r.key for r in one.relations}) for one in documents)
    return np.concatenate(scores), np.concatenate(right), true


def keys_of(text: str) -> set[tuple[str, str, str]]:
    """The relations of an output, as `fields.annotated.as_text` writes them."""
    found = (one.split(" ") for one in composed(text).split("; ") if one)
    return {(cells[1], cells[0], cells[2]) for cells in found if len(cells) == 3}


def leave_out_hypernyms(made: Table, relation: Field, tree: Mapping[str, Sequence[str]]) -> None:
    """Nothing is learned from pairs that say a true relation of something more general."""
    assert isinstance(relation, RelationField)
    labels: Any = made.columns["relation"]
    for row, one in enumerate(made.extras["document"]):
        true = {r.key for r in one.relations}
        own = labels.labels[row]
        for at, pair in enumerate(relation.pairs(one)):
            kinds = {(name, *pair) for name in relation.names[1:]}
            if own[at] == 0 and hypernyms(kinds, true, tree):
                own[at] = -1
