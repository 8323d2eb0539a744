"""Blocks of running text as training examples: what is predicted, and its context."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.passages.running_text import RunningText
from regard.protocols import PAD

__all__ = ["TextBlockBatch", "TextBlocks"]


@dataclass(frozen=True)
class TextBlockBatch:
    """Blocks of one step.

    Shapes:
        tokens (B, C + T - 1): C that go before each stretch, and the stretch but its last;
        target (B, T): the stretch; padding stands on the left of what begins a text, and on the
        right
    """

    tokens: Tensor
    target: Tensor
    count: int
    index: list[int]

    def to(self, device: torch.device | str) -> "TextBlockBatch":
        """The same batch on another device."""
        return replace(self, tokens=self.tokens.to(device), target=self.target.to(device))

    def __len__(self) -> int:
        return len(self.index)


class TextBlocks:
    """Parts of a text in ids, each with what goes before it.

    Args:
        ids: the whole text.
        starts, stops: of each stretch.
        begins: the first place that each may read.
        context: C, how many ids before a stretch are read with it; one at least.
        texts: what was written, where a stretch is a line.
        words: how many words each line has.
        apart: stretches know nothing of each other.
    """

    def __init__(
        self,
        ids: NDArray[np.int32],
        starts: NDArray[np.int64],
        stops: NDArray[np.int64],
        begins: NDArray[np.int64],
        context: int,
        texts: Sequence[str] = (),
        words: NDArray[np.int64] | None = None,
        apart: bool = False,
    ) -> None:
        self.ids, self.starts, self.stops, self.begins = ids, starts, stops, begins
        self.context, self.texts, self.words = context, texts, words
        self.apart = apart
        self.references = [[text] for text in texts]
        self.sizes = np.stack([stops - starts] * 2, 1)

    @classmethod
    def blocks(cls, text: RunningText, size: int, context: int) -> "TextBlocks":
        """All of a text in stretches of one size (the last may be shorter), wherever lines end."""
        starts = np.arange(1, len(text.ids), size, dtype=np.int64)
        stops = np.minimum(starts + size, len(text.ids))
        return cls(text.ids, starts, stops, np.zeros_like(starts), context)

    @classmethod
    def of_lines(cls, text: RunningText, context: int, *, apart: bool = False) -> "TextBlocks":
        """A stretch a line; lines `apart` read nothing of those before them."""
        starts, stops = text.starts[:-1], text.starts[1:]
        begins = starts - 1 if apart else np.zeros_like(starts)
        return cls(text.ids, starts, stops, begins, context, text.lines or (), text.words, apart)

    def __len__(self) -> int:
        return len(self.sizes)

    def count(self, indices: Sequence[int]) -> int:
        """Everything in a stretch is predicted."""
        return int(self.sizes[list(indices), 0].sum())

    def collate(self, indices: Sequence[int]) -> TextBlockBatch:
        """Those stretches, each with what goes before it."""
        at = np.asarray(indices, np.int64)
        starts, stops = self.starts[at, None], self.stops[at, None]
        longest = int((stops - starts).max(initial=1))
        places = starts + np.arange(-self.context, longest)
        last = len(self.ids) - 1
        found = self.ids[places.clip(0, last)].astype(np.int64)
        found[(places < self.begins[at, None]) | (places >= stops)] = PAD
        return TextBlockBatch(
            torch.from_numpy(np.ascontiguousarray(found[:, :-1])),
            torch.from_numpy(np.ascontiguousarray(found[:, self.context :])),
            self.count(indices),
            [int(i) for i in indices],
        )

    def subset(self, indices: Sequence[int]) -> "TextBlocks":
        """Some of the stretches, in that order; what goes before them stays."""
        at = np.asarray(indices, np.int64)
        return TextBlocks(
            self.ids,
            self.starts[at],
            self.stops[at],
            self.begins[at],
            self.context,
            [self.texts[i] for i in indices] if self.texts else (),
            None if self.words is None else self.words[at],
            self.apart,
        )
