"""The endless stream of micro-batches, derived only from (seed, position).

The plans of successive epochs are concatenated. Every process derives the whole plan, so each knows
the token count of a step over all processes without communication.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from regard.data.batch import divided
from regard.data.dataset import Dataset

__all__ = ["Micro", "Place", "Stream"]

Plan = Callable[..., list[list[int]]]


@dataclass(frozen=True)
class Place:
    """A position in the stream: the next micro-batch is number `offset` of `epoch`'s plan.

    Of data in files (see `train.file_batches`) `offset` counts all micro-batches, `marks` says
    where each lane stands, and `files` is a stamp of the files.
    """

    epoch: int = 0
    offset: int = 0
    marks: tuple[tuple[int, ...], ...] = ()
    files: int = 0

    def plain(self) -> tuple[Any, ...]:
        """As plain values, which `Place` takes again."""
        known = self.epoch, self.offset
        return (*known, self.marks, self.files) if self.marks else known


@dataclass(frozen=True)
class Micro:
    """One micro-batch of one process.

    Args:
        batch: the input of the task's loss.
        count: tokens of the whole step, over all processes and accumulation steps.
        after: the place after the whole step.
        epoch: passes over the data before the step, a fraction.
        until: the same after the step.
        number: of the micro-batch in the whole step, where its random numbers follow from that;
            else None.
        idle: it has nothing of its own, because the step has fewer examples than micro-batches;
            `batch` is a copy whose loss does not count.
    """

    batch: Any
    count: int
    after: Place
    epoch: float
    until: float
    number: int | None = None
    idle: bool = False


class Stream:
    """Micro-batches of process `rank` of `world`, from `start` on.

    Step s has the micro-batches [s*A*W, (s+1)*A*W) of the concatenated epoch plans; accumulation
    step a of rank r gets number a*W + r of them. So W processes see the same
    data as one process with W times the accumulation.

    Args:
        whole: the micro-batches of a step over all processes, whatever their number; None: A*W.
            They are cut by rows into the A*W that the processes take, where these are more.
    """

    def __init__(
        self,
        examples: Dataset,
        plan: Plan,
        *,
        tokens: int,
        seed: int,
        accumulate: int = 1,
        rank: int = 0,
        world: int = 1,
        start: Place | None = None,
        whole: int | None = None,
    ) -> None:
        """Store the arguments; see `__iter__`."""
        self.examples = examples
        self.plan = plan
        self.tokens = tokens
        self.seed = seed
        self.accumulate = accumulate
        self.rank = rank
        self.world = world
        self.start = start or Place()
        self.whole = whole

    def _plan(self, epoch: int) -> list[list[int]]:
        return self.plan(self.examples.sizes, tokens=self.tokens, seed=self.seed, epoch=epoch)

    def steps(self) -> Iterator[tuple[list[list[int]], Place, float, float]]:
        """The micro-batches (lists of indices) of each step over all processes, without end."""
        place, size = self.start, self.whole or self.accumulate * self.world
        plan = self._plan(place.epoch)
        while True:
            at = place.epoch + place.offset / len(plan)
            taken: list[list[int]] = []
            while len(taken) < size:
                if place.offset == len(plan):
                    place = Place(place.epoch + 1)
                    plan = self._plan(place.epoch)
                taken.append(plan[place.offset])
                place = Place(place.epoch, place.offset + 1)
            yield taken, place, at, place.epoch + place.offset / len(plan)

    def __iter__(self) -> Iterator[Micro]:
        """The micro-batches of this process, collated."""
        for step, after, epoch, until in self.steps():
            count = sum(self.examples.count(indices) for indices in step)
            if self.whole is None:
                for indices in step[self.rank :: self.world]:
                    yield Micro(self.examples.collate(indices), count, after, epoch, until)
                continue
            parts = divided(step, self.examples.sizes, self.accumulate * self.world)
            for number in range(self.rank, len(parts), self.world):
                own = parts[number]
                batch = self.examples.collate(own or step[0][:1])
                yield Micro(batch, count, after, epoch, until, number, idle=not own)
