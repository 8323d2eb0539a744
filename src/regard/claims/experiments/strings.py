"""Strings of eight symbols to copy or to reverse: how they are made, learned and scored."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.claims.experiments.fitting import fit
from regard.decode import Greedy
from regard.layers.reverse import reverse
from regard.protocols import BOS, EOS, PAD

__all__ = ["SIZE", "learn", "right", "strings"]

SYMBOLS, FIRST = 8, 4
SIZE = FIRST + SYMBOLS
"""Of the vocabulary: four special symbols, and those of the strings."""


def strings(
    lengths: Tensor, draw: torch.Generator, flip: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sources (B, S) that end in EOS, their lengths, and target_in and target_out (B, S)."""
    place = torch.arange(int(lengths.max()) + 1)
    source = torch.randint(FIRST, SIZE, (len(lengths), len(place)), generator=draw)
    source = source.masked_fill(place > lengths[:, None], PAD)
    source = source.masked_fill(place == lengths[:, None], EOS)
    target = reverse(source, lengths) if flip else source
    target_in = torch.cat([torch.full((len(lengths), 1), BOS), target[:, :-1]], 1)
    return source, lengths + 1, target_in.masked_fill(target_in == EOS, PAD), target


def learn(
    model: nn.Module,
    *,
    longest: int,
    updates: int,
    seed: int,
    lr: float = 0.02,
    flip: bool = False,
    shortest: int = 1,
) -> None:
    """Train on strings of all lengths up to the longest, 32 an update."""

    def loss(draw: torch.Generator) -> Tensor:
        lengths = torch.randint(shortest, longest + 1, (32,), generator=draw)
        source, with_end, target_in, gold = strings(lengths, draw, flip)
        logits = model(source, target_in, with_end).logits
        return F.cross_entropy(logits.flatten(0, 1), gold.flatten(), ignore_index=PAD)

    fit(model, loss, updates=updates, lr=lr, seed=seed)


@torch.no_grad()
def right(model: Any, length: int, flip: bool = False, count: int = 100) -> float:
    """The share of symbols that greedy decoding writes where they belong."""
    lengths = torch.full((count,), length)
    source, with_end, _, gold = strings(lengths, torch.Generator().manual_seed(99), flip)
    same = 0
    for (hypothesis,), row in zip(Greedy()(model, source, with_end), gold.tolist(), strict=True):
        pairs = zip(hypothesis.tokens[:length], row[:length], strict=False)
        same += sum(a == b for a, b in pairs)
    return same / (count * length)
