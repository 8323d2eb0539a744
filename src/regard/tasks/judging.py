"""How good a model is on dev, the same way for every task; `Task.judge` is its form."""

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.data.batch import plan

__all__ = ["Tally", "judge"]


class Tally(Protocol):
    """Takes note of scores while the loss is computed, where that needs no second pass."""

    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, int]:
        """As `Task.loss` gives it."""
        ...

    def scores(self) -> dict[str, float]:
        """Of all batches so far."""
        ...


@torch.no_grad()
def judge(
    task: Any,
    model: nn.Module,
    dev: Any,
    sample: Any,
    decoder: Any,
    fields: Mapping[str, Any],
    tokens: int,
    device: torch.device,
) -> tuple[float, int, dict[str, float]]:
    """The loss on dev and the scores of a sample: see `Task.judge`."""
    total, count = 0.0, 0
    asked = None if sample is None or not len(sample) else sample
    tally: Tally | None = None if asked is None else task.tally(dev, asked)
    loss = task.loss if tally is None else tally.loss
    for indices in plan(dev.sizes, tokens=tokens, shuffle=False, rows=task.most):
        part, size = loss(model, dev.collate(indices).to(device))
        total += float(part)
        count += int(size)
    if asked is None:
        return total, count, {}
    if tally is not None:
        return total, count, tally.scores()
    judged = task.as_judged(model, asked, tokens)
    found = judged.predict(model, asked, decoder, fields, tokens=tokens)
    scores = judged.score(found, asked)
    return total, count, {name: float(score.value) for name, score in scores.items()}
