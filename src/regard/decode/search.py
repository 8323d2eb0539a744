"""What every decoder shares: its limits, its forced prefixes, and the set-up of a search."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.decode.hypothesis import Hypothesis
from regard.decode.penalties import PENALTIES
from regard.errors import RequestError, nearest
from regard.protocols import BOS, EOS, PAD, Decoding, Generator, lengths_of

__all__ = ["IMPOSSIBLE", "Decoder", "Request", "check", "forced", "frozen", "log_probabilities"]

IMPOSSIBLE = -1e6
"""The log-probability of a token that the model gives none but a prefix forces: search goes on."""


@dataclass(frozen=True)
class Request:
    """One batch to decode: how far each sentence may go, and how it has to begin.

    Args:
        limits: the most tokens, EOS counted, of each sentence.
        prefix: (B, P) forced tokens padded with PAD, or None.
        source: (B, S) what is decoded.
    """

    model: Generator
    decoding: Decoding
    limits: list[int]
    prefix: Tensor | None
    source: Tensor

    def begin(self) -> tuple[Tensor, Tensor]:
        """Give the first tokens to read and the log-probabilities so far: (B, 1) each."""
        shape = (len(self.limits), 1)
        wide = torch.float32 if self.source.device.type == "mps" else torch.float64
        return self.source.new_full(shape, BOS), self.source.new_zeros(shape, dtype=wide)


@dataclass(frozen=True, kw_only=True)
class Decoder(ABC):
    """Turns a `Generator` and a batch of sources into hypotheses, best first.

    Args:
        length: alpha of the length penalty; 0 ranks by plain log-probability.
        penalty: "power" or "gnmt" (see `penalties`).
        max_ratio, max_extra: a hypothesis has at most `ceil(max_ratio * source length) + max_extra`
            tokens; EOS counts on both sides.
        max_length: never more than this many tokens, whatever the source (None: no such limit).
        min_length: EOS is not allowed before it would be token number `min_length`.

    A forced prefix or `min_length` always fits: the limit is raised to hold it and an EOS.
    PAD and BOS are never produced; probabilities are the model's own, over its whole vocabulary.
    """

    length: float = 1.0
    penalty: str = "power"
    max_ratio: float = 2.0
    max_extra: int = 10
    max_length: int | None = None
    min_length: int = 0

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        check(self.length >= 0, "length", "a number from 0 up", self.length)
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

    def __call__(
        self,
        model: Generator,
        source: Tensor,
        lengths: Tensor | None = None,
        prefix: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Decode a batch.

        Args:
            model: any `Generator`.
            lengths: (B,) of the sources, EOS counted; None counts what is not PAD.
            source: (B, S) ids ending in EOS, right-padded.
            prefix: how each output must begin: one list of ids a sentence, of any lengths, no BOS.
        """
        lengths = lengths_of(source, lengths)
        starts = _prefixes(prefix, len(source))
        if not len(source):
            return []
        limits = [
            max(self.limit(n), self.min_length, len(start) + 1 if start else 1)
            for n, start in zip(lengths.tolist(), starts, strict=True)
        ]
        with frozen(model), torch.inference_mode():
            decoding = model.start(model.encode(source, lengths))
            table = _table(starts).to(source.device) if any(starts) else None
            return self.search(Request(model, decoding, limits, table, source))

    @abstractmethod
    def search(self, request: Request) -> list[list[Hypothesis]]:
        """Find each sentence's hypotheses, in inference mode and with the model in eval mode."""

    def limit(self, source_length: int) -> int:
        """Give the most tokens, with EOS, for a source of `source_length` tokens with EOS."""
        most = math.ceil(self.max_ratio * source_length - 1e-9) + self.max_extra
        return most if self.max_length is None else min(most, self.max_length)

    def normalizer(self, length: int) -> float:
        """Give what the log-probability of `length` tokens, with EOS, is divided by."""
        return PENALTIES[self.penalty](length, self.length)


def check(holds: bool, key: str, expected: str, value: object) -> None:
    """Raise a RequestError that names the recipe key unless `holds`."""
    if not holds:
        raise RequestError(f"decode.{key}: expected {expected}, got {value!r}")


@contextmanager
def frozen(model: Generator) -> Iterator[None]:
    """Put every module below `model` in eval mode, and back in the mode it had."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    training = [m for m in modules if m.training]
    for m in training:
        m.training = False
    try:
        yield
    finally:
        for m in training:
            m.training = True


def log_probabilities(logits: Tensor, normalized: bool) -> Tensor:
    """Give log-probabilities (..., V) in float32 or better of what a step gave."""
    half = logits.dtype in (torch.bfloat16, torch.float16)
    dtype = torch.float32 if half else logits.dtype
    return logits.to(dtype) if normalized else logits.log_softmax(-1, dtype)


def forced(request: Request, step: int, rows: Tensor, size: int) -> Tensor | None:
    """Give each active sentence's forced token at `step` (n, 1), PAD where free; None if all are.

    Args:
        request: the batch.
        step: the number of tokens that all hypotheses have.
        rows: (n,) the sentences that are still in the batch.
        size: of the vocabulary.
    """
    table = request.prefix
    if table is None or step >= table.shape[1]:
        return None
    tokens = table[rows, step]
    largest = int(tokens.max())
    if largest >= size:
        raise RequestError(f"prefix: id {largest} is not in the model's vocabulary of {size}")
    return tokens[:, None] if largest != PAD else None


def _prefixes(prefix: Sequence[Sequence[int]] | None, sentences: int) -> list[list[int]]:
    if prefix is None:
        return [[] for _ in range(sentences)]
    if len(prefix) != sentences:
        raise RequestError(
            f"prefix: expected one list of ids a sentence, {sentences} in all, got {len(prefix)}"
        )
    for n, start in enumerate(prefix):
        for token in start:
            if token in (PAD, BOS, EOS) or token < 0:
                raise RequestError(
                    f"prefix: sentence {n} is to begin with id {token}, but a prefix holds no PAD,"
                    " BOS or EOS; give the ids of its words alone"
                )
    return [list(start) for start in prefix]


def _table(starts: list[list[int]]) -> Tensor:
    width = max(map(len, starts))
    return torch.tensor([start + [PAD] * (width - len(start)) for start in starts])
