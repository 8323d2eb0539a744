"""How good the model is now: loss and perplexity on dev, and the task's metric by decoding."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from regard.data.batch import some

__all__ = ["Validation"]


class Validation:
    """Judges a model on dev.

    Args:
        task: what is measured; its loss here is without label smoothing.
        dev: the examples; `limit` of them are decoded.
        decoder: greedy or beam.
        fields: of the data.
        metric: the one that counts, `loss` or one that the task's score gives.
        also: others that must be no worse for weights to be the best.
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
        """Choose which examples are decoded."""
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
        """Loss, perplexity and the scores of a model; it is left in the mode it was in."""
        training = model.training
        model.eval()
        with torch.no_grad(), precision():
            total, count, scores = self.task.judge(
                model, self.dev, self.sample, self.decoder, self.fields, tokens=self.tokens,
                device=device,
            )  # fmt: skip
        model.train(training)
        loss = total / max(count, 1)
        return {"loss": loss, "perplexity": math.exp(min(loss, 100.0)), **scores}

    def better(self, new: float, old: float | None) -> bool:
        """Is a score better than the best so far? One that is no number never is."""
        if math.isnan(new):
            return False
        if old is None or math.isnan(old):
            return True
        return new < old if self.lower else new > old

    def improved(self, new: Mapping[str, float], best: Mapping[str, float]) -> tuple[bool, bool]:
        """(is this the best, does patience begin anew) by all metrics that count.

        One metric must be better than it ever was; of several each may be as good.
        """
        if len(self.metrics) == 1:
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
        """The best that each metric ever was."""
        return {
            name: (min if name in self._lower else max)(new[name], best.get(name, new[name]))
            for name in self.metrics
            if not math.isnan(new[name])
        }

    def better_of(self, new: Mapping[str, float], old: Mapping[str, float]) -> bool:
        """Is a result better than another? Where the metric is the same, the loss decides."""
        if new[self.metric] == old[self.metric]:
            return new["loss"] < old["loss"]
        return self.better(new[self.metric], old[self.metric])
