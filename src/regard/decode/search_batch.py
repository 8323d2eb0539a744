"""A batch of sources ready for search, with what its outputs must contain."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.decode.hypothesis import Hypothesis
from regard.decode.program.in_c import InC
from regard.decode.rules.forbidden_words import Phrases, Rule
from regard.errors import RequestError
from regard.protocols import BOS, EOS, PAD, Decoding, Generator, Inputs, unpacked

__all__ = [
    "IMPOSSIBLE",
    "Gaining",
    "SearchBatch",
    "SoFar",
    "Sources",
    "Waiting",
    "ending_when",
    "for_inputs",
    "forced",
    "telling",
    "waited_for",
    "waiting",
    "within_vocabulary",
]


SoFar = Callable[[], list[list[Hypothesis]]]
"""Gives each sentence's hypotheses after a step, best first; tracing them takes time."""


IMPOSSIBLE = -1e6
"""The log-probability of a token that the model gives none but a prefix forces: search goes on."""


@runtime_checkable
class Gaining(Protocol):
    """A rule that may raise the score of a token, by at most `gain`."""

    gain: float


@dataclass(frozen=True)
class SearchBatch:
    """One batch to decode: how far each sentence may go, and how it has to begin.

    Args:
        limits: the most tokens, EOS counted, of each sentence.
        prefix: (B, P) forced tokens padded with PAD, or None.
        source: what is decoded: ids (B, S), frames (B, S, D) or regions.
        rules: what changes the scores of next tokens, one after the other.
        force_words: for each sentence, what its output must have; None where nothing is asked.
        lengths: (B,) of the sources.
        states: (B,) how many states the model has of each: as many, or fewer where it joins frames,
            or the regions of a picture.
        at_once: the most steps of a search between two of its results.
    """

    model: Generator
    decoding: Decoding
    limits: list[int]
    prefix: Tensor | None
    source: Tensor
    lengths: Tensor
    rules: Sequence[Rule] = field(default_factory=tuple)
    force_words: Phrases | None = None
    states: Tensor | None = None
    at_once: int = 1

    def begin(self) -> tuple[Tensor, Tensor]:
        """Give the first tokens to read and the log-probabilities so far: (B, 1) each."""
        shape, device = (len(self.limits), 1), self.source.device
        wide = torch.float32 if device.type == "mps" else torch.float64
        first = torch.full(shape, BOS, dtype=torch.int64, device=device)
        return first, torch.zeros(shape, dtype=wide, device=device)

    @property
    def gain(self) -> float:
        """The most that the rules can add to the score of a token; 0 where they only take."""
        rules: Sequence[object] = self.rules
        return sum((rule.gain for rule in rules if isinstance(rule, Gaining)), 0.0)

    def in_c(self, step: int, most: int) -> InC | None:
        """The model, if C may take up to `most` steps from this one on; else None."""
        begun = self.prefix is None or step >= self.prefix.shape[1]
        free = begun and not self.rules and self.force_words is None
        return self.model if free and most > 1 and isinstance(self.model, InC) else None

    def ruled(self, scores: Tensor, read: Tensor, rows: Tensor) -> Tensor:
        """Scores (n, width, V) after every rule; read (n, width, t) is kept for them alone."""
        for rule in self.rules:
            scores = rule(scores, read, rows)
        return scores


@dataclass(frozen=True)
class Sources:
    """A batch of sources and the validated constraints on its outputs."""

    inputs: Tensor | Inputs
    source: Tensor
    lengths: Tensor
    starts: list[list[int]]
    wanted: list[list[list[int]]]
    rules: Sequence[Rule]

    @classmethod
    def of(
        cls,
        inputs: Tensor | Inputs,
        lengths: Tensor | None,
        prefix: Sequence[Sequence[int]] | None,
        force_words: Phrases | None,
        rules: Sequence[Rule],
    ) -> "Sources":
        source, lengths = unpacked(inputs, lengths)
        if lengths is None:  # frames or regions, all of them real
            size = source.shape[1] if source.dim() > 1 else 1
            lengths = torch.full((len(source),), size, dtype=torch.int64, device=source.device)
        _check_lengths(lengths, source)
        prefixes = None if prefix is None else [[start] if len(start) else [] for start in prefix]
        starts = [own[0] if own else [] for own in _checked("prefix", prefixes, len(source))]
        wanted = _checked("force_words", force_words, len(source))
        return cls(inputs, source, lengths, starts, wanted, rules)


def _check_lengths(lengths: Tensor, source: Tensor) -> None:
    """Refuse lengths of other rows than the source's, or beyond its last column."""
    rows, columns = len(source), source.shape[1] if source.dim() > 1 else 1
    fits = lengths.shape == (rows,)
    if not fits or (rows and not 0 <= int(lengths.min()) <= int(lengths.max()) <= columns):
        raise RequestError(
            f"lengths: expected {rows} numbers from 0 to {columns}, got {lengths.tolist()}"
        )


def forced(request: SearchBatch, step: int, rows: Tensor) -> Tensor | None:
    """Give each active sentence's forced token at `step` (n, 1), PAD where free; None if all are.

    Args:
        request: the batch.
        step: the number of tokens that all hypotheses have.
        rows: (n,) the sentences that are still in the batch.
    """
    table = request.prefix
    if table is None or step >= table.shape[1]:
        return None
    tokens = table[rows, step]
    return tokens[:, None] if int(tokens.max()) != PAD else None


def within_vocabulary(start: Tensor, size: int) -> None:
    """Refuse forced tokens that a vocabulary of this size does not have."""
    if (largest := int(start.max())) >= size:
        raise RequestError(f"prefix: id {largest} is not in the model's vocabulary of {size}")


def _checked(what: str, given: Phrases | None, sentences: int) -> list[list[list[int]]]:
    """The phrases for each sentence, as lists of ids.

    Raises:
        RequestError: they do not fit the sentences of the batch.
    """
    if given is None:
        return [[] for _ in range(sentences)]
    if len(given) != sentences:
        raise RequestError(
            f"{what}: expected one list of ids a sentence, {sentences} in all, got {len(given)}"
        )
    for n, phrases in enumerate(given):
        for phrase in phrases:
            if not len(phrase):
                raise RequestError(f"{what}: sentence {n} has a phrase without a token")
            for token in phrase:
                if token in (PAD, BOS, EOS) or token < 0:
                    raise RequestError(
                        f"{what}: sentence {n} is given id {token}, but a {what} holds no PAD, BOS"
                        " or EOS; give the ids of its words alone"
                    )
    return [[list(phrase) for phrase in phrases] for phrases in given]


def _table(starts: list[list[int]]) -> Tensor:
    width = max(map(len, starts))
    return torch.tensor([start + [PAD] * (width - len(start)) for start in starts])


def _never(number: int) -> bool:
    return False


def _silent(number: int, found: Any) -> None:
    return None


@dataclass(frozen=True)
class Waiting:
    """Those who wait for what a call of `predict` gives.

    Args:
        over: whether nobody waits for anything any more. Asked every few steps of a decoder.
        left: whether nobody waits for the output of this input any more. Asked every few steps.
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

    Asked every few steps. For servers: the client may have disconnected.
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
