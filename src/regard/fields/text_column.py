"""Texts as ids, with what is known of their words."""

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.ragged import RaggedIds
from regard.encoders.kept import StateRows
from regard.protocols import EOS, PAD, Inputs

__all__ = ["TextColumn"]


class TextColumn:
    """Texts as ids, without BOS and EOS.

    Args:
        ids: of each text.
        end: whether a batch has EOS behind each text.
        letters: of the words of all texts end to end, the ids of their characters; None where they
            are not wanted.
        states: of the words of all texts, what an encoder says of each; None: there is none.
    """

    def __init__(
        self,
        ids: RaggedIds,
        *,
        end: bool = True,
        letters: RaggedIds | None = None,
        states: StateRows | None = None,
    ) -> None:
        self.ids, self.end, self.letters, self.states = ids, end, letters, states

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Tokens of each text, EOS among them where there is one: (n,)."""
        return self.ids.sizes + int(self.end)

    @property
    def tokens(self) -> NDArray[np.int64]:
        """Tokens of each text, without EOS: (n,)."""
        return self.ids.sizes

    @property
    def counts(self) -> NDArray[np.int64]:
        """Every token counts."""
        return self.sizes

    def take(self, indices: NDArray[np.int64]) -> "TextColumn":
        """Some of the texts."""
        letters = self.letters
        if letters is not None:
            letters = letters.take(self._places(indices))
        states = None if self.states is None else self.states.take(indices)
        return TextColumn(self.ids.take(indices), end=self.end, letters=letters, states=states)

    def collate(self, indices: NDArray[np.int64]) -> Inputs:
        """Ids (B, T).

        With characters there are `extras["characters"]` (B, T, C), with an encoder
        `extras["states"]` (B, T, layers, size).
        """
        ids = self.ids.padded(indices, PAD, EOS if self.end else PAD)
        ids = ids if self.end else ids[:, :-1]
        lengths = self.ids.sizes_at(indices) + int(self.end)
        extras = {}
        if self.letters is not None:
            words = self.letters.padded(self._places(indices), PAD, PAD)[:, :-1]
            grid = np.zeros((*ids.shape, words.shape[1]), np.int64)
            grid[np.arange(ids.shape[1]) < self.ids.sizes_at(indices)[:, None]] = words
            extras["characters"] = torch.from_numpy(grid)
        if self.states is not None:
            extras["states"] = self.states.padded(indices, ids.shape[1])
        return Inputs(torch.from_numpy(ids), torch.from_numpy(lengths), extras)

    def _places(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of the words of some texts, among the words of all."""
        own = [np.arange(self.ids.starts[i], self.ids.starts[i + 1]) for i in indices]
        return np.concatenate([*own, np.zeros(0, np.int64)]).astype(np.int64)
