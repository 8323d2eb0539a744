"""What a decoder in C carries from step to step: where its keys and values lie."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.mask import take

__all__ = ["PackedPast"]


@dataclass(frozen=True)
class PackedPast:
    """Blocks (rows, floats), one a step, and which row of each is a hypothesis's own.

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
