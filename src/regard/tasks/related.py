"""Parts of the task of relations: how pairs are sampled, the threshold, and what is answered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.documents import Relation, RelationDocument, to_json
from regard.data.formats.annotated import WRITERS
from regard.tasks.prediction import Prediction

__all__ = ["SAMPLINGS", "FoundRelations", "best_relation", "best_threshold", "keys_of"]


def _sides(true: Tensor) -> Tensor:
    """All true pairs or all others, with equal probability; what there is where one lacks."""
    wanted = bool(torch.rand(()) < 0.5)
    chosen = true if wanted else ~true
    chosen = chosen if chosen.any() else ~chosen
    return chosen.float() / chosen.sum()


def _balanced(true: Tensor) -> Tensor:
    """True pairs weigh as much as all others together: what `sides` is in the mean."""
    share = true.float().mean()
    return torch.where(true, 0.5 / share, 0.5 / (1 - share)) / len(true)


def _all(true: Tensor) -> Tensor:
    """Every pair weighs the same."""
    return torch.full(true.shape, 1 / max(len(true), 1), device=true.device)


SAMPLINGS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "sides": _sides,
    "balanced": lambda true: _balanced(true) if true.any() and not true.all() else _all(true),
    "all": _all,
}
"""How the pairs of a batch weigh in the loss: from which of them are true (P,) to weights (P,)."""


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


def best_threshold(scores: np.ndarray, right: np.ndarray, true: int) -> float:
    """The threshold with the greatest F1, in the middle between two scores.

    Args:
        scores: of what is said where they reach the threshold.
        right: whether it is true.
        true: how many true relations there are.
    """
    if not len(scores) or not right.any():
        return 0.5
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(right[order])
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + true)
    f1[:-1][ranked[:-1] == ranked[1:]] = -1.0  # equal scores go together
    at = int(f1.argmax())
    below = ranked[at + 1] if at + 1 < len(ranked) else 0.0
    return round(float((ranked[at] + below) / 2), 6)


def keys_of(text: str) -> set[tuple[str, str, str]]:
    """The relations of an output, as `fields.annotated.as_text` writes them."""
    found = (one.split(" ") for one in text.split("; ") if one)
    return {(cells[1], cells[0], cells[2]) for cells in found if len(cells) == 3}
