"""Sampling: draw the next token from the model's distribution."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decode.decoder import Decoder, check
from regard.decode.search_batch import SearchBatch, SoFar
from regard.decode.single_path import walk
from regard.decode.top import top
from regard.settings.old_names import DECODER, renaming

__all__ = ["Sample"]


@renaming(DECODER)
@dataclass(frozen=True)
class Sample(Decoder):
    """Draw every token: p(y) ∝ exp(logit / temperature), from the likeliest ones only if so asked.

    A sentence has its own random numbers, made from `seed` and its source alone: what is drawn
    for it depends neither on the other sentences of a batch nor on the global generator, and the
    same sentence twice gives the same samples (ask for `n_best` of them instead). The first token
    whose cumulative probability passes the step's number is taken.

    Args:
        temperature: below 1 sharper, above 1 flatter; scores reported are the model's own, at 1.
        top_k: draw among the k likeliest tokens; 0 for all.
        top_p: draw among the fewest likeliest tokens that hold this much probability; 1 for all.
        seed: another seed, other samples.
        n_best: how many samples a sentence, given best first.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    n_best: int = 1

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        super().__post_init__()
        expected = "a number above 0 (the limit 0 is the decoder 'greedy')"
        check(self.temperature > 0, "temperature", expected, self.temperature)
        check(self.top_k >= 0, "top_k", "0 (all tokens) or more", self.top_k)
        check(0 < self.top_p <= 1, "top_p", "a number above 0 and up to 1", self.top_p)
        check(self.n_best >= 1, "n_best", "1 or more", self.n_best)

    def search(self, request: SearchBatch) -> Iterator[SoFar]:
        """Follow `n_best` samples a sentence."""
        source = request.source
        numbers = torch.zeros(len(source), self.n_best, max(request.limits), dtype=torch.float64)
        each = zip(source.tolist(), request.lengths.tolist(), request.limits, strict=True)
        for row, (values, size, limit) in enumerate(each):
            own_values = values[:size]  # how far the batch is padded must not matter
            for n in range(self.n_best):
                own = torch.Generator().manual_seed(_seed(self.seed, n, own_values))
                numbers[row, n, :limit] = torch.rand(limit, generator=own, dtype=torch.float64)
        numbers = numbers.to(source.device)

        def draw(logits: Tensor, step: int, rows: Tensor) -> Tensor:
            return self.pick(logits, numbers[rows, :, step, None])

        return walk(self, request, draw, self.n_best)

    def pick(self, logits: Tensor, numbers: Tensor) -> Tensor:
        """Give the tokens at which the cumulative probability passes `numbers` in [0, 1).

        Shapes:
            logits (n, width, V), numbers (n, width, 1), tokens (n, width)
        """
        scaled, order = logits / self.temperature, None
        if self.top_k or self.top_p < 1:
            most = min(self.top_k or scaled.shape[-1], scaled.shape[-1])
            scaled, order = top(scaled, most)  # likeliest first
        probability = scaled.softmax(-1, dtype=numbers.dtype)
        if self.top_p < 1:
            before = probability.cumsum(-1) - probability
            probability = probability.masked_fill(before >= self.top_p, 0.0)
        passed = probability.cumsum(-1)
        place = torch.searchsorted(passed, numbers * passed[..., -1:], right=True)
        place = place.clamp(max=passed.shape[-1] - 1)
        return (place if order is None else order.gather(-1, place)).squeeze(-1)


def _seed(seed: int, sample: int, source: list[Any]) -> int:
    text = f"{seed} {sample} {source}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1
