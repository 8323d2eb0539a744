"""Learning-rate schedules: pure functions of where the training is, so resuming needs no state.

Each gives a factor by which the optimizer's `lr` is multiplied.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from regard.errors import RequestError, nearest

__all__ = [
    "SCHEDULES",
    "Constant",
    "Cosine",
    "Halving",
    "InverseSqrt",
    "Linear",
    "Point",
    "Schedule",
    "build",
]


class Point(NamedTuple):
    """Where a training is.

    Args:
        step: the update about to be made, counted from 1.
        epoch: passes over the data so far, with fraction.
        progress: how much of the training is done, 0 to 1, by whichever limit is nearest.
    """

    step: int
    epoch: float
    progress: float


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
    """Linear warm-up, then falling with the root of the step (Vaswani et al. 2017, section 5.3).

    With `dim` the paper's form, times the optimizer's `lr` (1 in the paper):

        dim^-0.5 * min(step^-0.5, step * warmup^-1.5)

    Without it the same curve scaled so that the optimizer's `lr` is its peak:

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


SCHEDULES: Mapping[str, Callable[..., Schedule]] = {
    "constant": Constant,
    "inverse-sqrt": InverseSqrt,
    "linear": Linear,
    "cosine": Cosine,
    "halving": Halving,
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
