"""Texts of all requests that wait, answered together: of like length, by a budget of tokens.

One thread computes. While it does, what comes waits; then the oldest text and those of the same
work whose lengths are nearest to its own become one batch, as far as the budget goes. Where nothing
is being computed, the first text waits for others for a moment.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from regard.serve._errors import Refusal, busy

__all__ = ["Batcher", "Job", "TextWork"]

log = logging.getLogger(__name__)

ROWS = 256
"""The most texts that are answered at once."""


@runtime_checkable
class TextWork(Protocol, Hashable):
    """What is done to texts; those of equal work may be done together."""

    @property
    def alone(self) -> bool:
        """Whether each text is done by itself."""
        ...

    def __call__(self, jobs: Sequence["Job"], over: Callable[[], bool]) -> Sequence[Any]:
        """The answers, in order.

        Args:
            over: whether nobody waits for any of them any more.

        A job may be finished before: as soon as its answer is there.
        """
        ...


@dataclass(eq=False)
class Job:
    """One text that waits for its answer.

    Args:
        text: the input.
        size: its tokens.
        work: what is done to it.
        deadline: of `time.monotonic`.
        own: what is asked of its output.
        answer: comes from the thread that computes; cancelled by who does not wait any more.
    """

    text: str
    size: int
    work: TextWork
    deadline: float
    own: Any = None
    answer: "Future[Any]" = field(default_factory=Future)
    queued: float = field(default_factory=time.monotonic)
    began: float = 0.0

    def over(self) -> bool:
        """Whether nobody waits any more."""
        return self.answer.cancelled() or time.monotonic() >= self.deadline

    def settled(self) -> bool:
        """Whether nothing is left to do: it is answered, or nobody waits any more."""
        return self.answer.done() or self.over()

    def finish(self, found: Any) -> None:
        """Give the answer or an exception, unless nobody waits."""
        with suppress(InvalidStateError):
            if isinstance(found, BaseException):
                self.answer.set_exception(found)
            else:
                self.answer.set_result(found)


class Batcher:
    """The queue and the thread that works it off.

    Args:
        tokens: rows times the longest of a batch, at most; a longer text is alone.
        wait: seconds that a text waits for others where nothing is being computed.
        queue: texts that may wait; more are refused with 429.
        backlog: seconds that a text may expect to wait; where it is more, all are refused with 429.
        prepare: called in the thread before anything else.
        noted: told of each batch: its jobs, and the seconds it took.
    """

    def __init__(
        self,
        tokens: int = 4096,
        wait: float = 0.003,
        queue: int = 4096,
        backlog: float = math.inf,
        *,
        prepare: Callable[[], None] = lambda: None,
        noted: Callable[[Sequence[Job], float], None] = lambda jobs, seconds: None,
    ) -> None:
        self.tokens, self.wait, self.most, self.backlog = tokens, wait, queue, backlog
        self.noted, self._prepare = noted, prepare
        self._waiting: dict[TextWork, list[Job]] = {}
        self._count, self._closed = 0, False
        self._pace = 0.001  # seconds a text, by a moving average
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="regard-batcher", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return self._count

    def submit(self, jobs: Sequence[Job]) -> None:
        """Let these wait for their answers: all or none.

        Raises:
            Refusal: 429, the queue is full; 503, it is closed.
        """
        with self._changed:
            if self._closed:
                raise Refusal(503, "the server is stopping; ask again soon", 1)
            if self._count + len(jobs) > self.most:
                raise busy(
                    f"{self._count} texts are waiting, and at most {self.most} may: come again"
                    " soon, or send fewer at once",
                    self._pace * self._count,
                )
            if (expected := self._pace * self._count) > self.backlog:
                raise busy(
                    f"what waits takes about {expected:.1f} seconds, and at most"
                    f" {self.backlog:g} may: come again soon",
                    expected,
                )
            for job in jobs:
                self._waiting.setdefault(job.work, []).append(job)
            self._count += len(jobs)
            self._changed.notify()

    def close(self) -> None:
        """Finish what waits, then end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        self._prepare()
        while (batch := self._next()) is not None:
            started = time.monotonic()
            for job in batch:
                job.began = started
            self._answer(batch)
            seconds = time.monotonic() - started
            self._pace = 0.9 * self._pace + 0.1 * seconds / len(batch)
            self.noted(batch, seconds)

    def _next(self) -> list[Job] | None:
        """The next batch, when its time has come; None: there is none and will be none."""
        with self._changed:
            while True:
                self._drop()
                if not self._waiting:
                    if self._closed:
                        return None
                    self._changed.wait()
                    continue
                work, jobs = min(self._waiting.items(), key=lambda own: own[1][0].queued)
                early = jobs[0].queued + self.wait - time.monotonic()
                full = work.alone or self._cost(jobs) >= self.tokens or len(jobs) >= ROWS
                if early > 0 and not full and not self._closed:
                    self._changed.wait(early)
                    continue
                batch = jobs[:1] if work.alone else self._like(jobs)
                self._take(work, batch)
                return batch

    def _cost(self, jobs: Iterable[Job]) -> int:
        return sum(job.size for job in jobs)

    def _like(self, jobs: Sequence[Job]) -> list[Job]:
        """The oldest and those nearest to it in length, sorted by length."""
        order = sorted(jobs, key=lambda job: job.size)
        low = high = order.index(jobs[0])
        while high - low + 1 < ROWS:
            longest, rows = order[high].size, high - low + 2
            below = low > 0 and rows * longest <= self.tokens
            above = high + 1 < len(order) and rows * order[high + 1].size <= self.tokens
            if below and above:
                oldest = jobs[0].size
                below = oldest - order[low - 1].size <= order[high + 1].size - oldest
            if below:
                low -= 1
            elif above:
                high += 1
            else:
                break
        return order[low : high + 1]

    def _take(self, work: TextWork, batch: Sequence[Job]) -> None:
        taken = set(map(id, batch))
        rest = [job for job in self._waiting[work] if id(job) not in taken]
        if rest:
            self._waiting[work] = rest
        else:
            del self._waiting[work]
        self._count -= len(batch)

    def _drop(self) -> None:
        """Forget those for whom nobody waits."""
        for work, jobs in [*self._waiting.items()]:
            left = [job for job in jobs if job.over()]
            for job in left:
                job.finish(TimeoutError())
            if left:
                self._take(work, left)

    def _answer(self, batch: Sequence[Job]) -> None:
        try:
            made = batch[0].work(batch, lambda: all(job.settled() for job in batch))
            for job, found in zip(batch, made, strict=True):
                job.finish(TimeoutError() if job.over() else found)  # it may have been cut off
        except Exception as error:
            if len(batch) == 1:
                if not isinstance(error, ValueError):  # of what was asked: its author is told
                    log.exception("a text could not be answered")
                batch[0].finish(error)
                return
            for job in batch:  # one may be what the others failed by
                if not job.settled():
                    self._answer([job])
