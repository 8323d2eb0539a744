"""Pairs of a source and a token sequence, as trainers and scorers see them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batch import PairBatch, collate, sources
from regard.data.dataset import Column
from regard.data.ragged import RaggedIds
from regard.fields.text import TextColumn
from regard.protocols import Inputs

__all__ = ["PairDataset"]


class PairDataset:
    """Pairs of a source and a token sequence, with the texts they came from.

    Args:
        source: ids without BOS and EOS, or a column of any kind: what it has `sizes` of (regions of
            pictures, frames of sounds, tokens), it gives to a model by `collate`, as `Inputs`.
        target: ids without BOS and EOS.
        texts: the source of each example.
        references: every right output of each example, the trained one first.
        links: of each example, pairs of a source and a target place that are aligned: (n, 2).
    """

    def __init__(
        self,
        source: RaggedIds | Column,
        target: RaggedIds,
        texts: Sequence[str],
        references: Sequence[list[str]],
        links: Sequence[NDArray[np.int64]] | None = None,
    ) -> None:
        self.source, self.target = source, target
        self.texts, self.references, self.links = texts, references, links
        read = source.sizes + 1 if isinstance(source, RaggedIds) else source.sizes
        self.sizes: NDArray[np.int64] = np.stack([read, target.sizes + 1], 1)
        """The size of each source, and tokens of each target; EOS counted: (n, 2)."""

    def __len__(self) -> int:
        return len(self.sizes)

    def count(self, indices: Sequence[int]) -> int:
        """The real target tokens of some examples, EOS counted."""
        return int(self.sizes[list(indices), 1].sum())

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Which sources have anything in them: (n,)."""
        source = self.source
        sizes = source.tokens if isinstance(source, TextColumn) else source.sizes
        filled: NDArray[np.bool_] = sizes > 0
        return filled

    def sources(self, indices: Sequence[int]) -> tuple[Tensor | Inputs, Tensor]:
        """Those sources as a model reads them, and their lengths (n,)."""
        return sources(self.source, np.asarray(indices, np.int64))

    def collate(self, indices: Sequence[int]) -> PairBatch:
        """Those examples as one padded batch."""
        batch = collate(self.source, self.target, indices)
        if self.links is None:
            return batch
        links = [self.links[i] for i in indices]
        return replace(batch, links=torch.from_numpy(numbered(links)))

    def subset(self, indices: Sequence[int]) -> "PairDataset":
        """Some examples, in that order."""
        at = np.asarray(indices, np.int64)
        return PairDataset(
            self.source.take(at),
            self.target.take(at),
            [self.texts[i] for i in indices],
            [self.references[i] for i in indices],
            None if self.links is None else [self.links[i] for i in indices],
        )


def as_source(column: Column) -> RaggedIds | Column:
    """A column of sources as pairs have it: ids where a text is nothing but ids, else itself."""
    if type(column) is TextColumn and column.letters is None and column.end:
        return column.ids
    return column


def numbered(links: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Links of several examples in one array, each with its example's number in front: (n, 3)."""
    rows = np.repeat(np.arange(len(links)), [len(own) for own in links])
    return np.concatenate([rows[:, None], np.concatenate(links)], 1)
