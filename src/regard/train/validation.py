"""Validation: loss and perplexity on dev, and the task's metric by decoding."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from regard.data.batch import some

__all__ = ["Validation"]


class Validation:
    """Scores a model on dev.

    Args:
        task: what is measured; its loss here is without label smoothing.
        dev: the examples; `limit` of them are decoded.
        decoder: greedy or beam.
        fields: of the data.
        metric: the deciding one, `loss` or one of the task's scores.
        also: further metrics that must not be worse for the best weights.
        lower: the metrics that are better when lower.
        tokens: the budget of a batch.
    """

    def __init__(
        self,
        task: Any,
        dev: Any,
        decoder: Any,
        fields: Mapping[str, Any],
        *,
        limit: int,
        metric: str,
        lower: set[str],
        tokens: int,
        also: Sequence[str] = (),
    ) -> None:
        """Choose the examples to decode."""
        self.task = task
        self.dev = dev
        self.decoder = decoder
        self.fields = fields
        self.metric = metric
        self.metrics = (metric, *also)
        self._lower = {*lower, "loss", "perplexity"}
        self.lower = metric in self._lower
        self.tokens = tokens
        self.sample = dev.subset(some(len(dev), limit)) if limit else None

    def __call__(
        self,
        model: nn.Module,
        device: torch.device,
        precision: Callable[[], AbstractContextManager[Any]],
    ) -> dict[str, float]:
        """Loss, perplexity and scores of a model, whose mode is restored."""
        training = model.training
        model.eval()
        with torch.no_grad(), precision():
            total, count, scores = self.task.judge(
                model,
                self.dev,
                self.sample,
                self.decoder,
                self.fields,
                tokens=self.tokens,
                device=device,
            )
        model.train(training)
        loss = total / max(count, 1)
        return {"loss": loss, "perplexity": math.exp(min(loss, 100.0)), **scores}

    def wider(self, limit: int) -> "Validation":
        """The same with up to `limit` examples decoded, if any are."""
        found = copy.copy(self)
        if self.sample is not None and len(self.sample) < min(limit, len(self.dev)):
            found.sample = self.dev.subset(some(len(self.dev), limit))
        return found

    def better(self, new: float, old: float | None) -> bool:
        """Whether a score is better than the best so far; NaN never is."""
        if math.isnan(new):
            return False
        if old is None or math.isnan(old):
            return True
        return new < old if self.lower else new > old

    def improved(self, new: Mapping[str, float], best: Mapping[str, float]) -> tuple[bool, bool]:
        """(is this the best, does patience restart), by all deciding metrics.

        A single metric must be better than its best value, or equal it with a lower loss; several
        may equal theirs.
        """
        if len(self.metrics) == 1:
            tied = new[self.metric] == best.get(self.metric)
            if tied and "loss" in new and "loss" in best:
                better = new["loss"] < best["loss"]
            else:
                better = self.better(new[self.metric], best.get(self.metric))
            return better, better
        good = [
            not math.isnan(new[m]) and self._no_worse(m, new[m], best.get(m)) for m in self.metrics
        ]
        return all(good), any(good)

    def _no_worse(self, name: str, new: float, best: float | None) -> bool:
        if best is None:
            return True
        return new <= best if name in self._lower else new >= best

    def bests(self, new: Mapping[str, float], best: Mapping[str, float]) -> dict[str, float]:
        """The best value so far of each metric; of a single one also the loss that it came with."""
        found = {
            name: (min if name in self._lower else max)(new[name], best.get(name, new[name]))
            for name in self.metrics
            if not math.isnan(new[name])
        }
        if len(self.metrics) == 1 and "loss" in new and self.improved(new, best)[0]:
            found["loss"] = new["loss"]
        return found

    def better_of(self, new: Mapping[str, float], old: Mapping[str, float]) -> bool:
        """Whether a result is better than another; the loss breaks ties."""
        if new[self.metric] == old[self.metric]:
            return new["loss"] < old["loss"]
        return self.better(new[self.metric], old[self.metric])
