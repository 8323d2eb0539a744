"""Generators small enough to search exhaustively, that carry what they have read."""

import itertools
from typing import Any

import torch
from torch import Tensor, nn

from regard.protocols import BOS, EOS, PAD, Decoding, Encoded, Output, lengths_of


class Markov(nn.Module):
    """A random table: the next token depends on the source, the step, and the tokens read so far.

    What was read is a carried tensor (B, beam, T) that only `Decoding.select` and `rows` re-order,
    and `seen` keeps, as a recorder would, what every step met at each (row, slot).
    """

    def __init__(self, size: int = 5, seed: int = 0, order: int = 2, sharp: float = 1.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        shape = (7, 4, *([size] * order), size)
        self.table = nn.Parameter(sharp * torch.randn(shape, generator=generator))
        self.order, self.size, self.normalized = order, size, False
        self.seen: list[Tensor] = []
        self.steps = 0

    def _logits(self, sentence: Tensor, history: Tensor) -> Tensor:
        """Sentence keys (B,), histories (B, beam, T): logits (B, beam, V)."""
        step = history.shape[-1] % 4
        recent = [
            history[..., -1 - k] if history.shape[-1] > k else history[..., 0] * 0
            for k in range(self.order)
        ]
        return self.table[(sentence[:, None].expand(history.shape[:2]), step, *recent)]

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Encoded:
        lengths = lengths_of(source, lengths)
        key = (source * (source != PAD)).sum(1) % 7
        return Encoded(key[:, None].float(), lengths)

    def start(self, encoded: Encoded) -> Decoding:
        key = encoded.states[:, 0].long()
        return Decoding({"key": key}, {"read": key.new_zeros(len(key), 1, 0)})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        read = torch.cat([decoding.carried["read"], tokens[..., None]], -1)
        self.seen.append(read.clone())
        self.steps += 1
        return self._logits(decoding.memories["key"], read), decoding.advance(read=read)

    def forward(self, source: Tensor, target_in: Tensor, lengths: Tensor | None = None) -> Output:
        key = self.encode(source, lengths).states[:, 0].long()
        each = [self._logits(key, target_in[:, None, : t + 1]) for t in range(target_in.shape[1])]
        return Output(torch.cat(each, 1))


class Fixed(Markov):
    """Next-token probabilities given by a function of the tokens read so far."""

    def __init__(self, size: int, probabilities: Any) -> None:
        super().__init__(size, order=1)
        self.probabilities, self.normalized = probabilities, True

    def _logits(self, sentence: Tensor, history: Tensor) -> Tensor:
        rows = [[self.probabilities(tuple(read[1:])) for read in row] for row in history.tolist()]
        return torch.tensor(rows).log()


def rescore(model: Markov, source: Tensor, tokens: list[int]) -> list[float]:
    """The log-probability of each token by teacher forcing, one sentence at a time, in float64."""
    read = torch.tensor([[BOS, *tokens[:-1]]])
    logits = model(source[None], read).logits[0].double()
    if not model.normalized:
        logits = logits.log_softmax(-1)
    return [float(logits[t, token].detach()) for t, token in enumerate(tokens)]


def everything(size: int, longest: int) -> list[tuple[int, ...]]:
    """All sequences that a decoder may give: those ending in EOS, and those cut at `longest`."""
    inner = [token for token in range(size) if token not in (PAD, BOS, EOS)]
    ended = [(*body, EOS) for n in range(longest) for body in itertools.product(inner, repeat=n)]
    return ended + list(itertools.product(inner, repeat=longest))
