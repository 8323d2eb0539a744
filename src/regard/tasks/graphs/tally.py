"""Scores of nodes, counted while the loss is computed: no second pass over a graph."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.metrics.multilabel import f1_of_counts

__all__ = ["NodeTally"]


class NodeTally:
    """Counts right nodes, and right, false and missed classes.

    Args:
        loss_of: the loss of logits and labels.
        kept: the nodes that scores are of; None: all.
        several: a node may have several classes.
    """

    def __init__(
        self,
        loss_of: Callable[[Tensor, Tensor], Tensor],
        kept: NDArray[np.int64] | None,
        *,
        several: bool,
    ) -> None:
        self._loss_of, self._kept, self._several = loss_of, kept, several
        self._counts = np.zeros(5, np.int64)

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        """The loss, summed over the nodes asked about; scores are taken note of."""
        logits, labels = batch.logits(model), batch.labels
        total = self._loss_of(logits, labels)
        if self._kept is not None:
            kept = torch.from_numpy(np.isin(batch.nodes, self._kept)).to(logits.device)
            logits, labels = logits[kept], labels[kept]
        self._counts += _counts(logits, labels)
        return total, batch.count

    def scores(self) -> dict[str, float]:
        """Accuracy in percent; where nodes have several classes also micro-F1."""
        right, asked, *sets = self._counts.tolist()
        if not asked:
            return {}
        scores = {"accuracy": 100 * right / asked}
        return {**scores, "micro_f1": f1_of_counts(*sets)} if self._several else scores


def _counts(logits: Tensor, labels: Tensor) -> list[int]:
    """Nodes that are right, nodes; of their classes the right, the false, and the missed."""
    if labels.dim() == 1:
        return [int((logits.argmax(-1) == labels).sum()), len(labels), 0, 0, 0]
    said, true = logits > 0, labels.bool()
    right, both = (said == true).all(-1), said & true
    false, missed = said & ~true, true & ~said
    return [int(right.sum()), len(labels), *(int(each.sum()) for each in (both, false, missed))]
