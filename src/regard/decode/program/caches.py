"""What a packed Transformer carries from step to step: where its keys and values lie."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.attention.mask import take
from regard.native.gate import expect

__all__ = ["PackedPast", "PackedSource"]


@dataclass(frozen=True)
class PackedSource:
    """Keys and values of each sentence's source for each layer, (S, 2 inner), where they lie.

    Shapes:
        at (n, layers): their addresses. keys, lengths, owner (n,): how many there are, how many
        are looked at, and which tensor of `held` they are in. All int64.
    """

    at: Tensor
    keys: Tensor
    lengths: Tensor
    owner: Tensor
    held: tuple[Tensor, ...]
    widest: int
    """As many keys as any sentence has, or more."""

    @classmethod
    def of(cls, pairs: Sequence[Tensor], lengths: Tensor, inner: int) -> "PackedSource":
        """Of one tensor (n, S, 2 inner) a layer."""
        n, size = len(lengths), pairs[0].shape[1]
        shape = n, size, 2 * inner
        first = [expect("the source's memory", p, torch.float32, shape) for p in pairs]
        apart = torch.arange(n)[:, None] * (4 * size * 2 * inner)
        keys = torch.full((n,), size, dtype=torch.int64)
        return cls(torch.tensor(first) + apart, keys, lengths, torch.arange(n) * 0, (*pairs,), size)

    def rows(self, index: Tensor) -> "PackedSource":
        """Keep some sentences."""
        at, keys, lengths, owner = (
            x.index_select(0, index) for x in (self.at, self.keys, self.lengths, self.owner)
        )
        return PackedSource(at, keys, lengths, owner, self.held, self.widest)

    def joined(self, other: "PackedSource") -> "PackedSource":
        """With the sentences of another behind; blocks without active hypotheses are freed."""
        layers = self.at.shape[1]
        used = self.owner.unique().tolist()
        owner = torch.searchsorted(torch.tensor(used, dtype=torch.int64), self.owner)
        held = [t for n in used for t in self.held[n * layers : (n + 1) * layers]]
        return PackedSource(
            torch.cat([self.at, other.at]),
            torch.cat([self.keys, other.keys]),
            torch.cat([self.lengths, other.lengths]),
            torch.cat([owner, other.owner + len(used)]),
            (*held, *other.held),
            max(int(self.keys.max()), other.widest) if len(self.keys) else other.widest,
        )

    def __reduce__(self) -> Any:
        """Addresses are not to be copied."""
        raise TypeError("the state of a packed decoder stays where it is: it holds addresses")


@dataclass(frozen=True)
class PackedPast:
    """Blocks (layers, 2, rows, inner), one a step, and which row of each is a hypothesis's own.

    Shapes:
        ancestors (n, width, steps) int32. starts (n,) int64: the block of each sentence's first
        step; None: all began with the first.
    """

    blocks: tuple[Tensor, ...] = ()
    ancestors: Tensor | None = None
    starts: Tensor | None = None

    def longer(self, block: Tensor, sentences: int, width: int) -> "PackedPast":
        """With one step more, whose rows are the hypotheses in their order."""
        now = torch.arange(sentences * width, dtype=torch.int32).view(sentences, width, 1)
        ancestors = now if self.ancestors is None else torch.cat([self.ancestors, now], -1)
        return replace(self, blocks=(*self.blocks, block), ancestors=ancestors)

    def select(self, index: Tensor) -> "PackedPast":
        """Follow a beam that is re-ordered."""
        return (
            self if self.ancestors is None else replace(self, ancestors=take(self.ancestors, index))
        )

    def rows(self, index: Tensor) -> "PackedPast":
        """Keep some sentences."""
        if self.ancestors is None:
            return self
        starts = None if self.starts is None else self.starts.index_select(0, index)
        return replace(self, ancestors=self.ancestors.index_select(0, index), starts=starts)

    def without(self, gone: int) -> "PackedPast":
        """Without the first steps, in which no sentence wrote that is left."""
        if self.ancestors is None:
            return self
        return replace(
            self, blocks=self.blocks[gone:], ancestors=self.ancestors[..., gone:].contiguous()
        )

    def joined(self, count: int) -> "PackedPast":
        """With this many sentences behind that begin with the next step.

        Blocks before the first step of all are freed.
        """
        known, now = self.ancestors, len(self.blocks)
        if known is None:
            return self
        starts = torch.zeros(len(known), dtype=torch.int64) if self.starts is None else self.starts
        starts = torch.cat([starts, torch.full((count,), now, dtype=torch.int64)])
        gone = int(starts.min())
        ancestors = torch.cat([known, known.new_zeros(count, *known.shape[1:])])
        return replace(self, ancestors=ancestors, starts=starts - gone).without(gone)
