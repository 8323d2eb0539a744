"""A text that waits for its answer, and what is done to it."""

import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

__all__ = ["Job", "TextWork"]


@runtime_checkable
class TextWork(Protocol, Hashable):
    """What is done to texts; those of equal work may be done together."""

    @property
    def alone(self) -> bool:
        """Whether each text is done by itself."""
        ...

    def running(self, sample: str) -> Any:
        """What decodes such texts while others come (`_continuous.Texts`); None: by batches.

        Args:
            sample: one of the texts.
        """
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
