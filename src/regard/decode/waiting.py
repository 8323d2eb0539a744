"""Who waits for the outputs of a batch: what is done is told at once, who has left is let go.

A server decodes the inputs of many clients together. A sentence that is finished leaves the batch,
and so does one whose client has gone: the steps that follow cost less. Neither changes what comes
out for the others, as no sentence sees another.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

__all__ = ["Waiting", "ending_when", "for_inputs", "telling", "waited_for", "waiting"]


def _never(number: int) -> bool:
    return False


def _silent(number: int, found: Any) -> None:
    return None


@dataclass(frozen=True)
class Waiting:
    """Those who wait for what a call of `predict` gives.

    Args:
        over: whether nobody waits for anything any more. Asked after each step of a decoder.
        left: whether nobody waits for the output of this input any more. Asked after each step.
        done: told of an input's `Prediction` as soon as nothing can change it. Not every task does;
            what `predict` gives has all of them.
    """

    over: Callable[[], bool]
    left: Callable[[int], bool] = _never
    done: Callable[[int, Any], None] = _silent


@dataclass(frozen=True)
class _Batch:
    """A batch of a decoder, for those who wait.

    Args:
        inputs: which input each sentence is.
        made: the prediction of a sentence's hypotheses. Where it or `inputs` is None, sentences of
            this decoder are not known to be inputs, and only `over` is asked.
    """

    waiting: Waiting
    inputs: Sequence[int] | None = None
    made: Callable[[int, list[Any]], Any] | None = None

    def over(self) -> bool:
        """Whether nobody waits any more."""
        return self.waiting.over()

    def kept(
        self, rows: Sequence[int], keep: list[int], best: Callable[[int], list[Any]]
    ) -> list[int]:
        """Those rows of `keep` that somebody waits for; the others of `rows` are done, and told.

        Args:
            rows: the sentence of each row.
            best: the hypotheses of a sentence that is done.
        """
        if self.inputs is None or self.made is None:
            return keep
        if len(keep) < len(rows):
            on = set(keep)
            for row, sentence in enumerate(rows):
                if row not in on:
                    self.waiting.done(self.inputs[sentence], self.made(sentence, best(sentence)))
        return [row for row in keep if not self.waiting.left(self.inputs[rows[row]])]


_NOW: ContextVar[_Batch | None] = ContextVar("_NOW", default=None)


@contextmanager
def waiting(who: Waiting) -> Iterator[None]:
    """Within this, in this thread, decoders go on for these alone."""
    with _set(_Batch(who)):
        yield


@contextmanager
def ending_when(over: Callable[[], bool]) -> Iterator[None]:
    """Within this, in this thread, a call of a decoder ends as by a deadline once `over()` is true.

    Asked after each step. For servers: whoever wanted the outputs may have left.
    """
    with waiting(Waiting(over)):
        yield


@contextmanager
def for_inputs(numbers: Sequence[int]) -> Iterator[None]:
    """Say which input each sentence of the next batch is: `Task.predict` does."""
    now = _NOW.get()
    with _set(None if now is None else _Batch(now.waiting, numbers)):
        yield


@contextmanager
def telling(made: Callable[[int, list[Any]], Any]) -> Iterator[None]:
    """Say how a sentence's hypotheses become a prediction: `Task.outputs` does."""
    now = _NOW.get()
    with _set(None if now is None else _Batch(now.waiting, now.inputs, made)):
        yield


def waited_for() -> _Batch | None:
    """The batch of this thread, where somebody waits for it."""
    return _NOW.get()


@contextmanager
def _set(value: _Batch | None) -> Iterator[None]:
    before = _NOW.set(value)
    try:
        yield
    finally:
        _NOW.reset(before)
