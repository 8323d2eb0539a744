"""Texts that are decoded while others come and go: what is asked, and how far each is."""

import time
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from regard.serve._estimates import Pace
from regard.serve._job import Job

__all__ = ["Going", "Texts"]

SAVED = 0.1
"""Seconds of steps for which texts may be read later."""


@runtime_checkable
class Texts(Protocol):
    """What `inference.continuous_texts.RunningTexts` is; answers are what a client gets."""

    @property
    def width(self) -> int:
        """Hypotheses of a text."""
        ...

    def add(self, names: Sequence[int], texts: Sequence[str]) -> dict[int, Any]:
        """Take texts in; give the answers of those that need no decoding."""
        ...

    def drop(self, names: Sequence[int]) -> None:
        """Decode these no further."""
        ...

    @property
    def steps(self) -> int:
        """How many steps were made so far."""
        ...

    def step(self) -> dict[int, Any]:
        """Go one step, or a few in C; give the answers of those that are finished."""
        ...


class Going:
    """The jobs of one work that are under way.

    Args:
        texts: decodes them.
        pace: told how long it takes.
    """

    def __init__(self, texts: Texts, pace: Pace) -> None:
        self.texts, self.pace, self.seconds = texts, pace, 0.0
        self._jobs: dict[int, tuple[Job, int]] = {}  # and the step with which each began
        self._count = self._steps = 0
        self._credit = 0.0  # seconds that reading may take before the next step

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def jobs(self) -> list[Job]:
        """Those that have no answer yet."""
        return [job for job, _ in self._jobs.values()]

    @property
    def open(self) -> bool:
        """Whether texts may be taken in now.

        Reading may take as long as steps have taken, and steps of `SAVED` seconds are remembered:
        texts join at once, and gather where reading them one by one would take longer.
        """
        return not self._jobs or self._credit >= 0

    def forget(self) -> None:
        """Decode none of them any further."""
        self._jobs.clear()

    @property
    def rows(self) -> int:
        """Hypotheses that are decoded."""
        return self.texts.width * len(self._jobs)

    @property
    def tokens(self) -> int:
        """Of all inputs that are decoded."""
        return sum(job.size for job in self.jobs)

    def add(self, jobs: Sequence[Job]) -> list[Job]:
        """Take jobs in; those that could be answered at once."""
        now = time.monotonic()
        names = range(self._count, self._count + len(jobs))
        self._count += len(jobs)
        found = self.texts.add(names, [job.text for job in jobs])
        took = time.monotonic() - now
        self.seconds += took
        self._credit -= took
        for name, job in zip(names, jobs, strict=True):
            job.began = now
            if name in found:
                job.finish(found[name])
            else:
                self._jobs[name] = job, self._steps
        return [job for name, job in zip(names, jobs, strict=True) if name in found]

    def step(self) -> list[Job]:
        """Go a few steps; the jobs answered by them, and those for which nobody waits any more."""
        gone = [name for name, (job, _) in self._jobs.items() if job.over()]
        ended = [self._jobs.pop(name)[0] for name in gone]
        for job in ended:
            job.finish(TimeoutError())
        self.texts.drop(gone)
        if not self._jobs:
            return ended
        count, before, began = len(self._jobs), self.texts.steps, time.monotonic()
        found = self.texts.step()
        took, steps = time.monotonic() - began, self.texts.steps - before
        self.seconds += took
        self._credit = min(self._credit + took, SAVED)
        self._steps += steps
        for _ in range(steps):
            self.pace.step(count, took / steps)
        for name, answer in found.items():
            job, since = self._jobs.pop(name)
            self.pace.ended(self._steps - since)
            job.finish(answer)
            ended.append(job)
        return ended
