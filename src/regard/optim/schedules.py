"""Learning-rate schedules: pure functions of the training's progress, without state.

Each returns a factor of the optimizer's `lr`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from regard.errors import RequestError, nearest

__all__ = [
    "SCHEDULES",
    "Constant",
    "Cosine",
    "Exponential",
    "Halving",
    "InverseSqrt",
    "Linear",
    "Plateau",
    "Point",
    "Schedule",
    "build",
    "ended",
]


class Point(NamedTuple):
    """The progress of a training.

    Args:
        step: the number of the next update, from 1.
        epoch: passes over the data so far, a fraction.
        progress: the finished part of the training, 0 to 1, by the nearest limit.
        losses: the dev losses of all validations so far.
    """

    step: int
    epoch: float
    progress: float
    losses: Sequence[float] = ()


Schedule = Callable[[Point], float]


def _warm(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup else 1.0


@dataclass(frozen=True)
class Constant:
    """Always 1, after a linear warm-up over the first `warmup` steps."""

    warmup: int = 0

    def __call__(self, point: Point) -> float:
        """The factor at a point."""
        return _warm(point.step, self.warmup)


@dataclass(frozen=True)
class InverseSqrt:
    """Linear warm-up, then the inverse square root of the step (Vaswani et al. 2017, section 5.3).

    With `dim`, the paper's formula times the optimizer's `lr` (1 in the paper):

        dim^-0.5 * min(step^-0.5, step * warmup^-1.5)

    Without it, the same curve with the optimizer's `lr` as its peak:

        min(step / warmup, (warmup / step)^0.5)
    """

    warmup: int = 4000
    dim: int | None = None

    def __call__(self, point: Point) -> float:
        """The factor at a point."""
        step, warmup = point.step, max(self.warmup, 1)
        if self.dim is not None:
            return float(self.dim**-0.5 * min(step**-0.5, step * warmup**-1.5))
        return min(step / warmup, math.sqrt(warmup / step))


@dataclass(frozen=True)
class Linear:
    """Linear warm-up, then linearly down to `final` times the peak at the end of the training."""

    warmup: int = 0
    final: float | int = 0.0

    def __call__(self, point: Point) -> float:
        """The factor at a point."""
        return _warm(point.step, self.warmup) * (1 - (1 - self.final) * point.progress)


@dataclass(frozen=True)
class Cosine:
    """Linear warm-up, then half a cosine down to `final` times the peak at the end."""

    warmup: int = 0
    final: float | int = 0.0

    def __call__(self, point: Point) -> float:
        """The factor at a point."""
        fall = (1 + math.cos(math.pi * point.progress)) / 2
        return _warm(point.step, self.warmup) * (self.final + (1 - self.final) * fall)


@dataclass(frozen=True)
class Halving:
    """1, halved after `start` epochs and every `every` epochs from there (Luong et al. 2015)."""

    start: float | int = 5.0
    every: float | int = 1.0

    def __call__(self, point: Point) -> float:
        """The factor at a point."""
        return 0.5 ** max(0, math.floor((point.epoch - self.start) / self.every) + 1)


@dataclass(frozen=True)
class Exponential:
    """1, multiplied by `factor` in every `every` steps, a little at each (Verga et al. 2018)."""

    factor: float = 0.75
    every: float | int = 25_000

    def __call__(self, point: Point) -> float:
        """The factor at a point."""
        return float(self.factor ** ((point.step - 1) / self.every))


@dataclass(frozen=True)
class Plateau:
    """1, multiplied by `factor` at each validation whose dev loss does not improve on the last.

    With `sticky` it decreases at every validation after the first such one: with `factor: 0.1` and
    a validation per epoch this is ConvS2S (Gehring et al. 2017, section 4.2). Without `sticky`,
    `factor: 0.6667, threshold: 0.9999` is the memory network's language model (Sukhbaatar et al.
    2015, the authors' code). The training ends when the factor falls below `least`.

    Args:
        factor: the multiplier of the rate.
        threshold: a loss must be below this fraction of the last one to count as an improvement.
        sticky: decrease at every validation after the first without improvement.
        least: the factor below which the training ends; 0: never.
    """

    factor: float = 0.1
    threshold: float | int = 1.0
    sticky: bool = False
    least: float | int = 0.0

    def __call__(self, point: Point) -> float:
        """The factor at a point."""
        pairs = zip(point.losses, point.losses[1:], strict=False)
        stalled = [not new < self.threshold * old for old, new in pairs]
        if self.sticky and True in stalled:
            return self.factor ** (len(stalled) - stalled.index(True))
        return self.factor ** sum(stalled)


SCHEDULES: Mapping[str, Callable[..., Schedule]] = {
    "constant": Constant,
    "inverse-sqrt": InverseSqrt,
    "linear": Linear,
    "cosine": Cosine,
    "exponential": Exponential,
    "halving": Halving,
    "plateau": Plateau,
}


def build(section: Mapping[str, Any]) -> Schedule:
    """The schedule of a recipe: `{name: inverse-sqrt, warmup: 4000}`.

    Raises:
        RequestError: no schedule has that name.
    """
    settings = dict(section)
    name = settings.pop("name", "constant")
    if name not in SCHEDULES:
        raise RequestError(f"there is no schedule {name!r}: {nearest(str(name), SCHEDULES)}")
    return SCHEDULES[name](**settings)


def ended(schedule: Schedule, losses: Sequence[float]) -> str:
    """Why a schedule that depends on the dev loss ends the training, or nothing."""
    least = getattr(schedule, "least", 0.0)
    if least and schedule(Point(1, 0.0, 0.0, losses)) < least:
        return f"a learning rate of less than {least:g} times the first"
    return ""
