"""Parts of the task of relations: how pairs are sampled, the threshold, and what is answered."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.annotations.documents import Relation, RelationDocument, to_json
from regard.data.dataset import Table
from regard.data.formats.documents import WRITERS
from regard.data.text.count_vectors import count_vectors
from regard.fields import Field
from regard.fields.relation import RelationField
from regard.metrics.relations import hypernyms
from regard.protocols import PAD, Inputs, Output
from regard.tasks.prediction import Prediction

__all__ = [
    "SAMPLINGS",
    "Candidates",
    "FoundRelations",
    "RelationVote",
    "best_relation",
    "best_threshold",
    "candidates",
    "from_counts",
    "keys_of",
    "leave_out_hypernyms",
]


class RelationVote(nn.Module):
    r"""Several models that answer together.

    .. math:: z = \frac{1}{m} \sum_i \log \mathrm{softmax}(z_i) + (0, s_i, ..., s_i), \quad
        s_i = \mathrm{logit}(t_1) - \mathrm{logit}(t_i)

    The first class is none. A pair that every model gives the probability of its own threshold has
    the probability of the first model's threshold, which is the one that the task asks for.

    Args:
        models: `RelationClassifier`s over one vocabulary and the same relations.
        thresholds: t of each, above 0 and below 1.
    """

    normalized = False

    def __init__(self, models: Sequence[nn.Module], thresholds: Sequence[float]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        odds = torch.tensor(thresholds, dtype=torch.float64).logit()
        self.shift = float(odds[0] - odds.mean())

    def forward(self, source: Inputs) -> Output:
        """Logits of pairs, and those of tags."""
        each: list[Output] = [model(source) for model in self.models]
        total = _mean([one.logits for one in each])
        total[..., 1:] += self.shift
        return Output(total, {"names": _mean([one.extra["names"] for one in each])})


def _mean(logits: Sequence[Tensor]) -> Tensor:
    """Of log-probabilities."""
    return torch.stack([one.double().log_softmax(-1) for one in logits]).mean(0)


def from_counts(weight: Tensor, train: Any, scale: float) -> None:
    """Give a model the vectors of its words or pieces that their neighbors in the texts make."""
    ids = train.columns["document"].ids
    weight.copy_(count_vectors([ids[i] for i in range(len(ids))], *weight.shape) * scale)
    weight[PAD] = 0.0


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
