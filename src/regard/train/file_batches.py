"""The endless stream of micro-batches of data in files (`data.stream`).

The micro-batches of all lanes in turn are one sequence, which (seed, lanes, buffer) give. Number n
comes from lane n mod L. Each process reads its own lanes alone; at each step all tell each other
the sizes of their micro-batches and where their lanes stand, a few hundred bytes.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from regard.data.batch import plan
from regard.data.dataset import Dataset
from regard.data.storage.shuffle_buffer import Lane, Mark, Streamed, Taken, marks_of, plain_marks
from regard.errors import RequestError
from regard.recipe.train_section import Training
from regard.train import distributed, engine
from regard.train.micro_batches import Micro, Place, Stream

__all__ = ["LaneStream", "micros_of"]

Numbers = NDArray[np.int64]


def _alone(numbers: Numbers) -> Numbers:
    return numbers


class LaneStream:
    """Micro-batches of process `rank` of `world`, from `start` on; see `micro_batches.Stream`.

    Args:
        source: the files.
        tokens: the budget of a micro-batch.
        numbered: random numbers of a micro-batch follow from its number in the step.
        together: gives the sum of an array over all processes.

    Raises:
        RequestError: the processes cannot share the lanes, or the files are not those that the
            training began with.
    """

    def __init__(
        self,
        source: Streamed,
        *,
        tokens: int,
        seed: int,
        accumulate: int = 1,
        rank: int = 0,
        world: int = 1,
        start: Place | None = None,
        numbered: bool = False,
        together: Callable[[Numbers], Numbers] = _alone,
    ) -> None:
        """Check that it can be; see the class."""
        self.source, self.start, self.together = source, start or Place(), together
        self.tokens, self.seed = tokens, seed
        self.accumulate, self.rank, self.world = accumulate, rank, world
        self.stamp, self.numbered = source.stamp, numbered
        if source.lanes % world:
            raise RequestError(
                f"data.stream.lanes: {world} processes cannot share {source.lanes} lanes evenly; "
                f"expected a number of processes that divides {source.lanes}"
            )
        if self.start.marks and self.start.files != self.stamp:
            raise RequestError(
                "data.stream: the files are not those that this training began with (their names "
                "or sizes changed); give it the same files, or train again with --fresh"
            )

    def __iter__(self) -> Iterator[Micro]:
        """The micro-batches of this process, collated."""
        count, size = self.source.lanes, self.accumulate * self.world
        marks = marks_of(self.start.marks) or [Mark()] * count
        first = self.start.offset
        own = {
            lane: iter(
                Lane(self.source, lane, tokens=self.tokens, seed=self.seed, mark=marks[lane])
            )
            for lane in range(count)
            if (lane - first) % self.world == self.rank
        }
        until = self._passes(marks)
        while True:
            taken: list[Taken] = []
            mine = {lane: marks[lane] for lane in own}
            counts = np.zeros(size, np.int64)
            for place in range(self.rank, size, self.world):
                lane = (first + place) % count
                taken.append(next(own[lane]))
                counts[place], mine[lane] = taken[-1].count, taken[-1].after
            told = np.zeros((count, 4), np.int64)
            for lane, mark in mine.items():
                told[lane] = plain_marks([mark])[0]
            said = self.together(np.concatenate([counts, told.ravel()]))
            marks = marks_of(said[size:].reshape(count, 4).tolist())
            epoch, until, first = until, self._passes(marks), first + size
            after = Place(0, first, plain_marks(marks), self.stamp)
            total = int(said[:size].sum())
            for place in range(self.rank, size, self.world):
                one = taken.pop(0)
                number = place if self.numbered else None
                yield Micro(one.examples.collate(one.indices), total, after, epoch, until, number)
                del one

    def _passes(self, marks: list[Mark]) -> float:
        """Passes over the data so far, the mean of all lanes; whole files are counted."""
        parts = [self.source.part(mark, lane) for lane, mark in enumerate(marks)]
        return sum(parts) / len(parts)


def micros_of(
    train: Dataset | Streamed,
    settings: Training,
    start: Place | None = None,
    *,
    alone: bool = False,
) -> Stream | LaneStream:
    """The micro-batches of this process, of data in memory, in a store or in files.

    Args:
        alone: as for one process.

    Raises:
        RequestError: the processes cannot share the lanes, or the micro-batches of a step of lanes.
    """
    rank, world = (0, 1) if alone else (engine.rank(), engine.world())
    tokens, seed, whole = settings.batch.budget, settings.seed, settings.batch.whole
    accumulate = settings.batch.accumulated(world)
    if isinstance(train, Streamed):
        if whole is not None and whole % world:
            step, more = settings.batch.step_tokens or 0, -(-whole // world) * world
            raise RequestError(
                f"train.batch.step_tokens: {world} processes cannot share evenly the {whole} "
                f"micro-batches of a step of {step} tokens, and those of data.stream are not cut; "
                f"expected a number of processes that divides {whole}, or a smaller "
                f"train.batch.tokens ({-(-step // more)} gives {more}, and another curve)"
            )
        return LaneStream(
            train,
            tokens=tokens,
            seed=seed,
            accumulate=accumulate,
            rank=rank,
            world=world,
            start=start,
            numbered=whole is not None,
            together=_alone if world == 1 else distributed.aside(),
        )
    return Stream(
        train,
        plan,
        tokens=tokens,
        seed=seed,
        accumulate=accumulate,
        rank=rank,
        world=world,
        start=start,
        whole=whole,
    )
