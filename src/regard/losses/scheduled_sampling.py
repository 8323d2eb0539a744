r"""Scheduled sampling: the decoder learns on what it would have written itself.

In update i each input word after the start is the right one with probability ε_i, else the model's
own, drawn word by word (Bengio, Vinyals, Jaitly and Shazeer 2015, "Scheduled Sampling for Sequence
Prediction with Recurrent Neural Networks", 2.4):

    linear       ε_i = max(floor, k - slope i)
    exponential  ε_i = max(floor, k^i),                k < 1
    sigmoid      ε_i = max(floor, k / (k + e^{i/k})),  k >= 1

The inputs are found first, without a gradient; the loss is then the usual one on these inputs.
`how: steps` goes word by word, so that later words are drawn after the words that earlier ones
were replaced by: the paper's. `how: passes` predicts all words at once after the right ones, which
is much faster where a model is parallel (Mihaylova and Martins 2019).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batch import PairBatch
from regard.errors import RequestError, nearest
from regard.protocols import BOS, PAD

__all__ = ["DECAYS", "Scheduled"]

DECAYS: Mapping[str, Callable[[float, float, int], float]] = MappingProxyType(
    {
        "linear": lambda k, slope, i: k - slope * i,
        "exponential": lambda k, slope, i: k**i,
        "sigmoid": lambda k, slope, i: k / (k + math.exp(min(i / k, 700.0))),
    }
)
"""ε of `task.scheduled.decay` by k, slope and the update."""

CHOICES: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "sample": lambda logits: torch.distributions.Categorical(logits=logits).sample(),
        "best": lambda logits: logits.argmax(-1),
    }
)


@dataclass(frozen=True)
class Scheduled:
    """Settings of `task.scheduled`.

    Args:
        decay: "sigmoid", "linear" or "exponential".
        k: see above.
        slope: of the linear decay.
        floor: ε never falls below it.
        choose: "sample" from the model, or its "best" word.
        how: "steps" or "passes".
    """

    decay: str = "sigmoid"
    k: float = 1000.0
    slope: float = 0.0
    floor: float = 0.0
    choose: str = "sample"
    how: str = "steps"

    def __post_init__(self) -> None:
        for key, known in (("decay", DECAYS), ("choose", CHOICES), ("how", WAYS)):
            given = getattr(self, key)
            if given not in known:
                raise RequestError(f"task.scheduled.{key} is {given!r}; {nearest(given, known)}")
        bounds = {"sigmoid": (1.0, math.inf), "exponential": (0.0, 1.0), "linear": (0.0, 1.0)}
        low, high = bounds[self.decay]
        if not low <= self.k <= high:
            most = "up" if high == math.inf else f"to {high:g}"
            raise RequestError(
                f"task.scheduled.k is {self.k:g}; with decay {self.decay} it is from {low:g} {most}"
            )
        if not 0.0 <= self.floor <= 1.0 or self.slope < 0.0:
            raise RequestError("task.scheduled: floor is from 0 to 1, and slope 0 or more")

    def keep(self, update: int) -> float:
        """ε: with which probability an input word is the right one."""
        return min(1.0, max(self.floor, DECAYS[self.decay](self.k, self.slope, update)))

    def mixed(self, model: nn.Module, batch: PairBatch, update: int) -> PairBatch:
        """The batch with some input words replaced by what the model would have written."""
        keep = self.keep(update)
        if keep >= 1.0:
            return batch
        right = torch.rand(batch.target_in.shape, device=batch.target_in.device) < keep
        right |= (batch.target_in == BOS) | (batch.target_in == PAD)
        with torch.no_grad():
            target_in = WAYS[self.how](model, batch, right, CHOICES[self.choose])
        return replace(batch, target_in=target_in)


Choose = Callable[[Tensor], Tensor]


def _by_steps(model: Any, batch: PairBatch, right: Tensor, choose: Choose) -> Tensor:
    decoding = model.start(model.encode(batch.source, batch.source_lengths))
    read = [batch.target_in[:, :1]]
    for t in range(1, batch.target_in.shape[1]):
        logits, decoding = model.step(read[-1], decoding)
        own = choose(_words(logits))
        read.append(torch.where(right[:, t : t + 1], batch.target_in[:, t : t + 1], own))
    return torch.cat(read, 1)


def _by_passes(model: Any, batch: PairBatch, right: Tensor, choose: Choose) -> Tensor:
    logits = model(batch.source, batch.target_in, batch.source_lengths).logits
    own = choose(_words(logits[:, :-1]))
    mixed = torch.where(right[:, 1:], batch.target_in[:, 1:], own)
    return torch.cat([batch.target_in[:, :1], mixed], 1)


def _words(logits: Tensor) -> Tensor:
    """Logits in float32, padding and start impossible."""
    logits = logits.float().clone()
    logits[..., : BOS + 1] = -torch.inf
    return logits


WAYS: Mapping[str, Callable[[Any, PairBatch, Tensor, Choose], Tensor]] = MappingProxyType(
    {"steps": _by_steps, "passes": _by_passes}
)
