"""What every decoder shares: its limits, its forced prefixes, and the set-up of a search."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.decode.hypothesis import Hypothesis
from regard.decode.packed import PRECISIONS, packed
from regard.decode.panels import Panels
from regard.decode.penalties import PENALTIES
from regard.decode.rules import Phrases, Rule, no_repeat_ngram, repetition_penalty
from regard.decode.waiting import waited_for
from regard.errors import RequestError, nearest
from regard.protocols import BOS, EOS, PAD, Decoding, Generator, Inputs, unpacked
from regard.settings import old_names
from regard.settings.old_names import renaming

__all__ = [
    "IMPOSSIBLE", "Decoder", "Gaining", "Request", "SoFar", "Sources", "check", "forced", "frozen",
    "within_vocabulary",
]  # fmt: skip

SoFar = Callable[[], list[list[Hypothesis]]]
"""Gives each sentence's hypotheses after a step, best first; tracing them takes time."""

IMPOSSIBLE = -1e6
"""The log-probability of a token that the model gives none but a prefix forces: search goes on."""


@runtime_checkable
class Gaining(Protocol):
    """A rule that may raise the score of a token, by at most `gain`."""

    gain: float


@dataclass(frozen=True)
class Request:
    """One batch to decode: how far each sentence may go, and how it has to begin.

    Args:
        limits: the most tokens, EOS counted, of each sentence.
        prefix: (B, P) forced tokens padded with PAD, or None.
        source: what is decoded: ids (B, S), frames (B, S, D) or regions.
        rules: what changes the scores of next tokens, one after the other.
        force_words: for each sentence, what its output must have; None where nothing is asked.
        lengths: (B,) of the sources.
    """

    model: Generator
    decoding: Decoding
    limits: list[int]
    prefix: Tensor | None
    source: Tensor
    lengths: Tensor
    rules: Sequence[Rule] = field(default_factory=tuple)
    force_words: Phrases | None = None

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

    def ruled(self, scores: Tensor, read: Tensor, rows: Tensor) -> Tensor:
        """Scores (n, width, V) after every rule; read (n, width, t) is kept for them alone."""
        for rule in self.rules:
            scores = rule(scores, read, rows)
        return scores


@dataclass(frozen=True, kw_only=True)
class Decoder(ABC):
    """Turns a `Generator` and a batch of sources into hypotheses, best first.

    Args:
        length_penalty: alpha of the length penalty; 0 ranks by plain log-probability.
        penalty: "power" or "gnmt" (see `penalties`).
        max_ratio, max_extra: a hypothesis has at most `ceil(max_ratio * source length) + max_extra`
            tokens; EOS counts on both sides.
        max_length: never more than this many tokens, whatever the source (None: no such limit).
        min_length: EOS is not allowed before it would be token number `min_length`.
        no_repeat_ngram: no n-gram of this length is repeated; 0 for no such rule.
        repetition_penalty: what the log-probability of tokens written before is multiplied by:
            above 1 they come less often. Scores count it.
        precision: of a packed decoder's weights on a CPU: "float32", "bfloat16" or "int8" (see
            `packed`).

    A forced prefix or `min_length` always fits: the limit is raised to hold it and an EOS.
    PAD and BOS are never produced; probabilities are the model's own, over its whole vocabulary.
    """

    length_penalty: float = 1.0
    penalty: str = "power"
    max_ratio: float = 2.0
    max_extra: int = 10
    max_length: int | None = None
    min_length: int = 0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    precision: str = "float32"

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        check(self.length_penalty >= 0, "length_penalty", "a number from 0 up", self.length_penalty)
        if self.penalty not in PENALTIES:
            hint = nearest(self.penalty, PENALTIES)
            raise RequestError(f"decode.penalty: no length penalty {self.penalty!r}; {hint}")
        check(self.max_ratio >= 0, "max_ratio", "a number from 0 up", self.max_ratio)
        check(self.max_extra >= 0, "max_extra", "0 or more", self.max_extra)
        some = self.max_ratio + self.max_extra > 0
        check(some, "max_extra", "1 or more, as max_ratio is 0", self.max_extra)
        check(self.min_length >= 0, "min_length", "0 or more", self.min_length)
        most = self.max_length
        fits = most is None or most >= max(1, self.min_length)
        check(fits, "max_length", "1 or more, and no less than min_length", most)
        ngram, penalty = self.no_repeat_ngram, self.repetition_penalty
        check(ngram >= 0, "no_repeat_ngram", "0 (no such rule) or more", ngram)
        check(penalty >= 1, "repetition_penalty", "a number from 1 up", penalty)
        hint = " or ".join(PRECISIONS)
        check(self.precision in PRECISIONS, "precision", hint, self.precision)

    @renaming(old_names.ASKED)
    def __call__(
        self,
        model: Generator,
        source: Tensor | Inputs,
        lengths: Tensor | None = None,
        prefix: Sequence[Sequence[int]] | None = None,
        *,
        force_words: Phrases | None = None,
        rules: Sequence[Rule] = (),
        deadline: float | None = None,
    ) -> list[list[Hypothesis]]:
        """Decode a batch; a sentence for which nothing fits what is asked has no hypothesis.

        Args:
            model: any `Generator`, or one that was `packed`.
            lengths: (B,) of the sources, EOS counted; None counts what is not PAD.
            source: (B, S) ids ending in EOS, right-padded, or any `Inputs` that the model reads.
            prefix: how each output must begin: one list of ids a sentence, of any lengths, no BOS.
            force_words: for each sentence, sequences of ids that its output must have (`Beam`
                alone).
            rules: more rules than the decoder's own (see `rules`), `Avoid` for one.
            deadline: seconds after which no further step begins. What comes back then is the best
                so far; a hypothesis that had not ended has `finished` False.
        """
        end = _end(deadline)
        asked = Sources.of(source, lengths, prefix, force_words, rules)
        if not len(source):
            return []
        found: SoFar = list
        batch = waited_for()
        with frozen(model), torch.inference_mode():
            for so_far in self.search(self._request(model, asked)):
                found = so_far
                if end is not None and time.monotonic() >= end:
                    break
                if batch is not None and batch.over():
                    break
            return found()

    def steps(
        self,
        model: Generator,
        source: Tensor | Inputs,
        lengths: Tensor | None = None,
        prefix: Sequence[Sequence[int]] | None = None,
        *,
        force_words: Phrases | None = None,
        rules: Sequence[Rule] = (),
        deadline: float | None = None,
    ) -> Iterator[list[list[Hypothesis]]]:
        """Decode a batch step by step: what has been found so far, after each step.

        Each item is what a call would give back if its deadline were now: for each sentence its
        hypotheses, best first, those that have not ended ranked as if they ended here. The last
        item is the result of the call. The steps are those of the call, packed models included; an
        item costs the time to trace its hypotheses. Closing the generator ends the work; nothing
        runs, and the model is in the mode it was in, while an item is looked at.

        Args:
            model, source, lengths, prefix, force_words, rules: see `__call__`.
            deadline: seconds from now after which no further step begins.

        Example:
            >>> from regard.models.transformer import Transformer
            >>> from regard.decode import Greedy
            >>> model = Transformer(9, 9, dim=8, heads=2, layers=1, ffn_dim=8)
            >>> decoder = Greedy(min_length=3, max_length=3)
            >>> steps = decoder.steps(model, torch.tensor([[5, 6, 2]]))
            >>> print(*(len(best.tokens) for ((best,),) in steps))
            1 2 3
        """
        end = _end(deadline)
        asked = Sources.of(source, lengths, prefix, force_words, rules)
        return self._steps(model, asked, end)

    def _steps(
        self, model: Generator, asked: "Sources", end: float | None
    ) -> Iterator[list[list[Hypothesis]]]:
        search: Iterator[SoFar] | None = None
        while len(asked.source):
            # Nothing is left set while somebody else's code runs: each step sets it up anew.
            with frozen(model), torch.inference_mode():
                if search is None:
                    search = self.search(self._request(model, asked))
                so_far = next(search, None)
                if so_far is None:
                    return
                found = so_far()
            yield found
            if end is not None and time.monotonic() >= end:
                return

    def _request(self, model: Generator, asked: "Sources") -> Request:
        """Read the sources, in inference mode and with the model in eval mode."""
        source, starts, wanted = asked.source, asked.starts, asked.wanted
        limits = [
            max(self.limit(n), self.min_length, sum(map(len, [start, *words])) + 1)
            for n, start, words in zip(asked.lengths.tolist(), starts, wanted, strict=True)
        ]
        own = [no_repeat_ngram(self.no_repeat_ngram)] if self.no_repeat_ngram else []
        if self.repetition_penalty > 1:
            own += [repetition_penalty(self.repetition_penalty)]
        engine: Generator = packed(model, self.precision)
        decoding = engine.start(engine.encode(asked.inputs, asked.lengths))
        table = _table(starts).to(source.device) if any(starts) else None
        return Request(
            engine, decoding, limits, table, source, asked.lengths, [*own, *asked.rules],
            wanted if any(wanted) else None,
        )  # fmt: skip

    @abstractmethod
    def search(self, request: Request) -> Iterator[SoFar]:
        """Go one step after the other; each item gives what is found so far, if it is called.

        The last one gives the result. Resumed in inference mode, with the model in eval mode.
        """

    def limit(self, source_length: int) -> int:
        """Give the most tokens, with EOS, for a source of `source_length` tokens with EOS."""
        most = math.ceil(self.max_ratio * source_length - 1e-9) + self.max_extra
        return most if self.max_length is None else min(most, self.max_length)

    def normalizer(self, length: int) -> float:
        """Give what the log-probability of `length` tokens, with EOS, is divided by."""
        return PENALTIES[self.penalty](length, self.length_penalty)


def check(holds: bool, key: str, expected: str, value: object) -> None:
    """Raise a RequestError that names the recipe key unless `holds`."""
    if not holds:
        raise RequestError(f"decode.{key}: expected {expected}, got {value!r}")


def _end(deadline: float | None) -> float | None:
    """The moment of a deadline that begins to run now."""
    if deadline is None:
        return None
    if not deadline > 0:
        raise RequestError(f"deadline: expected seconds, a number above 0, got {deadline!r}")
    return time.monotonic() + deadline


@dataclass(frozen=True)
class Sources:
    """A batch and what is asked of its outputs, checked."""

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
        prefixes = None if prefix is None else [[start] if len(start) else [] for start in prefix]
        starts = [own[0] if own else [] for own in _checked("prefix", prefixes, len(source))]
        wanted = _checked("force_words", force_words, len(source))
        return cls(inputs, source, lengths, starts, wanted, rules)


@contextmanager
def frozen(model: Generator) -> Iterator[None]:
    """Put every module below `model` in eval mode, and back in the mode it had."""
    own = model.model if isinstance(model, Panels) else model
    modules = list(own.modules()) if isinstance(own, nn.Module) else []
    training = [m for m in modules if m.training]
    for m in training:
        m.training = False
    try:
        yield
    finally:
        for m in training:
            m.training = True


def forced(request: Request, step: int, rows: Tensor) -> Tensor | None:
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
    """What is asked of each sentence, as lists, or a sentence on what is wrong with it."""
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
