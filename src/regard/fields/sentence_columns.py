"""Documents: texts whose sentences are kept apart."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.ragged import RaggedIds
from regard.protocols import PAD, Inputs

__all__ = ["DocumentColumn"]


class DocumentColumn:
    """Documents as sentences of ids.

    Args:
        words: the ids of all sentences of all documents, end to end.
        starts: where the sentences of each document begin among them: (n + 1,).
    """

    def __init__(self, words: RaggedIds, starts: NDArray[np.int64]) -> None:
        self.words, self.starts = words, starts

    @classmethod
    def of(
        cls, documents: Sequence[Sequence[str]], encode: Callable[..., RaggedIds]
    ) -> "DocumentColumn":
        """From the sentences of each document.

        Args:
            encode: gives the ids of many sentences; those without any are left out.
        """
        every = [one for document in documents for one in document]
        sizes = np.fromiter(map(len, documents), np.int64, len(documents))
        words = encode(every)
        kept = words.sizes > 0
        owner = np.repeat(np.arange(len(sizes)), sizes)[kept]
        counts = np.bincount(owner, minlength=len(sizes))
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(words.take(np.flatnonzero(kept)), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Words of each document: (n,)."""
        return self.words.starts[self.starts[1:]] - self.words.starts[self.starts[:-1]]

    @property
    def tokens(self) -> NDArray[np.int64]:
        """Words of each document: (n,)."""
        return self.sizes

    @property
    def counts(self) -> NDArray[np.int64]:
        """Every word counts."""
        return self.sizes

    def take(self, indices: NDArray[np.int64]) -> "DocumentColumn":
        """Some of the documents."""
        counts = self.starts[indices + 1] - self.starts[indices]
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return DocumentColumn(self.words.take(self._places(indices)), starts)

    def collate(self, indices: NDArray[np.int64]) -> Inputs:
        """Ids (B, S, W), the number of sentences (B,), and `extras["words"]` (B, S) of each."""
        counts = self.starts[indices + 1] - self.starts[indices]
        places = self._places(indices)
        rows = self.words.padded(places, PAD, PAD)[:, :-1]
        there = np.arange(int(counts.max(initial=0))) < counts[:, None]
        ids = np.full((*there.shape, rows.shape[1]), PAD, np.int64)
        ids[there] = rows
        words = np.zeros(there.shape, np.int64)
        words[there] = self.words.sizes_at(places)
        extras = {"words": torch.from_numpy(words)}
        return Inputs(torch.from_numpy(ids), torch.from_numpy(counts), extras)

    def _places(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of the sentences of some documents, among the sentences of all."""
        own = [np.arange(self.starts[i], self.starts[i + 1]) for i in indices]
        return np.concatenate([*own, np.zeros(0, np.int64)]).astype(np.int64)
