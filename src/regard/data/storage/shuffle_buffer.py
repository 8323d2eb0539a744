"""A training split that is read from many files as it is wanted: one buffer of examples at a time.

The files are dealt to a few lanes. A lane reads its files one after another, each pass in another
order, into a buffer; it cuts the examples of a full buffer into batches of like length, in random
order, and goes on when they are taken. The batches of a lane follow from (seed, lane) alone, never
from who reads it: so processes may share the lanes in any way, and a training may go on with
another number of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from regard.data.batch import plan
from regard.data.dataset import Dataset
from regard.data.problems import Problems, Silent
from regard.errors import RequestError

__all__ = [
    "BUFFER",
    "LANES",
    "File",
    "Lane",
    "Make",
    "Mark",
    "Read",
    "Streamed",
    "Taken",
    "marks_of",
    "plain_marks",
]

BUFFER = 100_000
"""Examples that are in memory where a recipe does not say."""
LANES = 8
"""Files that are read beside each other where a recipe does not say."""

File = Path | Mapping[str, Path]
"""A file, or one for each field (Moses)."""
Read = Callable[[File, Problems], Iterator[Any]]
Make = Callable[[list[Any], Problems], Dataset | None]


@dataclass(frozen=True)
class Mark:
    """Where a lane stands: its next batch.

    Args:
        epoch: passes over its files.
        piece: of the pass, the number of the file that its buffer begins in.
        row: examples of that file before the buffer.
        offset: batches of the buffer that are taken.
    """

    epoch: int = 0
    piece: int = 0
    row: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Taken:
    """One batch of a lane, not yet collated; `after`: where the lane stands behind it."""

    examples: Dataset
    indices: list[int]
    after: Mark

    @property
    def count(self) -> int:
        """What its loss is a sum over."""
        return self.examples.count(self.indices)


@dataclass(frozen=True, eq=False)
class Streamed:
    """A training split in files.

    Args:
        files: in the order of their names.
        read: gives the examples of a file.
        make: gives the data set of some examples; None where none of them can be used.
        buffer: examples in memory, of all lanes together.
        lanes: how many there are. With fewer files than lanes a file has several lanes: of n, each
            takes every n-th example.
    """

    files: Sequence[File]
    read: Read
    make: Make
    buffer: int = BUFFER
    lanes: int = LANES

    def __post_init__(self) -> None:
        if not self.files:
            raise RequestError("data.stream: there is no file to read")
        for name, value in (("buffer", self.buffer), ("lanes", self.lanes)):
            if value < 1:
                raise RequestError(f"data.stream.{name} is {value}; it must be 1 or more")
        if self.buffer < self.lanes:
            raise RequestError(
                f"data.stream.buffer is {self.buffer}; it must be {self.lanes} or more, one "
                "example for each lane"
            )

    @property
    def stamp(self) -> int:
        """A number that changes with the names and the sizes of the files."""
        several = [one.values() if isinstance(one, Mapping) else [one] for one in self.files]
        facts = [(path.name, path.stat().st_size) for one in several for path in one]
        return crc32(repr(facts).encode())

    def pieces(self, lane: int, seed: int, epoch: int) -> list[tuple[File, int, int]]:
        """What a lane reads in a pass: files, of each every n-th example from one on.

        In every pass each example belongs to exactly one lane.
        """
        count = len(self.files)
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch, count])))
        order = random.permutation(count).tolist()
        if count >= self.lanes:
            return [(self.files[i], 0, 1) for i in order[lane :: self.lanes]]
        parts = len(range(lane % count, self.lanes, count))
        return [(self.files[order[lane % count]], lane // count, parts)]

    def part(self, mark: Mark, lane: int) -> float:
        """Passes of a lane over its files before a mark: whole files are counted."""
        own = len(range(lane, len(self.files), self.lanes)) or 1  # as `pieces` deals them
        return mark.epoch + mark.piece / own

    def first(self) -> Dataset:
        """The examples of the first buffer of the first lane, to look at.

        Raises:
            RequestError: no file has a usable example.
        """
        for number in range(self.lanes):
            lane = Lane(self, number, tokens=1, seed=1, problems=Silent())
            for examples, _, _ in lane.buffers():
                return examples
        raise RequestError(f"data.stream: {_named(self.files[0])} and the others: no usable row")


class Lane:
    """The batches of one lane, without end.

    Args:
        tokens: the budget of a batch; see `data.batch.plan`.
        seed: of all shuffling.
        mark: where to begin.
        problems: told of what is left out in the first pass.
    """

    def __init__(
        self,
        source: Streamed,
        number: int,
        *,
        tokens: int,
        seed: int,
        mark: Mark | None = None,
        problems: Problems | None = None,
    ) -> None:
        self.source, self.number, self.tokens, self.seed = source, number, tokens, seed
        self.mark = mark or Mark()
        self.problems = _Few() if problems is None else problems

    def __iter__(self) -> Iterator[Taken]:
        """Its batches; a `RequestError` where a whole pass has none."""
        while True:
            begun, found = self.mark, False
            for taken in self.once():
                self.mark, found = taken.after, True
                yield taken
            if not found and begun == Mark(begun.epoch):
                raise RequestError(
                    f"data.stream: lane {self.number} of {self.source.lanes} has no usable "
                    "example: expected some in every file; say a smaller data.stream.lanes"
                )
            self.mark = Mark(begun.epoch + 1)

    def once(self) -> Iterator[Taken]:
        """The batches from its mark to the end of that pass."""
        offset = self.mark.offset
        for examples, mark, after in self.buffers():
            drawn = f"{mark.epoch} {self.number} {mark.piece} {mark.row}"
            batches = plan(examples.sizes, self.tokens, self.seed, epoch=crc32(drawn.encode()))
            for at in range(offset, len(batches)):
                here = replace(mark, offset=at + 1)
                yield Taken(examples, batches[at], after if at + 1 == len(batches) else here)
            offset = 0
            del examples  # before the next ones are read

    def buffers(self) -> Iterator[tuple[Dataset, Mark, Mark]]:
        """Full buffers to the end of the pass: examples, where each begins, and the next one."""
        mark, size = replace(self.mark, offset=0), -(-self.source.buffer // self.source.lanes)
        problems = self.problems if mark.epoch == 0 else Silent()
        rows = self._rows(mark, problems)
        following = list(islice(rows, size))
        while following:
            several, following = following, list(islice(rows, 1))
            after = Mark(mark.epoch, *several[-1][:2]) if following else Mark(mark.epoch + 1)
            examples = self.source.make([item for _, _, item in several], problems)
            del several
            if examples is not None:
                yield examples, mark, after
                del examples
            mark = after
            following += islice(rows, size - len(following))

    def _rows(self, mark: Mark, problems: Problems) -> Iterator[tuple[int, int, Any]]:
        """The examples behind a mark: the number of the piece, the place in it, the example."""
        pieces = self.source.pieces(self.number, self.seed, mark.epoch)
        for at in range(mark.piece, len(pieces)):
            file, first, step = pieces[at]
            own = islice(self.source.read(file, problems), first, None, step)
            for place, item in enumerate(own, 1):
                if at > mark.piece or place > mark.row:
                    yield at, place, item


class _Few(Problems):
    """The first problems of each kind in a file are logged, and no sums: it is read in parts."""

    def report(self, file: str) -> None:
        """Say nothing."""


def _named(file: File) -> str:
    return str(next(iter(file.values())) if isinstance(file, Mapping) else file)


def marks_of(plain: Sequence[Sequence[int]]) -> list[Mark]:
    """Marks from plain numbers, as `plain_marks` gave them."""
    return [Mark(*map(int, one)) for one in plain]


def plain_marks(marks: Sequence[Mark]) -> tuple[tuple[int, ...], ...]:
    """Marks as plain numbers."""
    return tuple(astuple(mark) for mark in marks)
