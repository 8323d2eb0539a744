"""Texts to the states of their pieces."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.encoders.stack import Stack
from regard.errors import RequestError

__all__ = ["Encoder", "EncoderTrace", "PieceStates", "windows"]

PIECES = 8192
"""Pieces that are encoded at once: their inner layers take 50 MB at 1,536 units."""


@dataclass(frozen=True, eq=False)
class PieceStates:
    """A text in pieces.

    Args:
        states: of each piece, in each layer that was asked for.
        offsets: where each stands in the text, in characters.

    Shapes:
        states (pieces, layers, dim), offsets (pieces, 2)
    """

    states: NDArray[np.float32]
    offsets: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EncoderTrace:
    """One text in an encoder, from the first layer to the last that was wanted.

    Args:
        pieces: as the encoder has them, the special ones among them.
        offsets: where those that are no special ones stand in the text, in characters.
        inner: their places among all.
        states: of all pieces, a tensor for each layer, the one below the first layer included.

    Shapes:
        offsets (inner pieces, 2), states (pieces, dim) each
    """

    pieces: list[str]
    offsets: NDArray[np.int64]
    inner: slice
    states: list[Tensor]


class Encoder:
    """An encoder with its tokenizer: texts to states.

    Args:
        stack: its weights.
        tokenizer: of the library `tokenizers`, as its folder has it.
        stamp: a digest of weights, settings and tokenizer; see `opening.stamp`.
        name: of its folder.
        licence: as its folder says; "": it says nothing.
    """

    def __init__(
        self, stack: Stack, tokenizer: Any, stamp: str, name: str, licence: str = ""
    ) -> None:
        self.stack, self.tokenizer = stack.eval(), tokenizer
        self.stamp, self.name, self.licence = stamp, name, licence
        tokenizer.no_truncation()
        tokenizer.no_padding()
        plain = tokenizer.encode("a", add_special_tokens=True)
        inner = [i for i, special in enumerate(plain.special_tokens_mask) if not special]
        first, last = (inner[0], inner[-1] + 1) if inner else (0, 0)
        self.before, self.behind = plain.ids[:first], plain.ids[last:]
        """The special pieces around a text."""

    def to(self, device: str) -> "Encoder":
        """Compute states on this device from here on; they are given on the CPU."""
        self.stack.to(device)
        return self

    @property
    def dim(self) -> int:
        """Of a state."""
        return self.stack.shape.dim

    @property
    def room(self) -> int:
        """The pieces of a text that are read at once, beside the special ones."""
        return self.stack.shape.longest - len(self.before) - len(self.behind)

    def numbered(self, layers: Sequence[int]) -> list[int]:
        """Layers counted from 0, the vectors below the first one; -1 is the last one.

        Raises:
            RequestError: there is none, or no such layer.
        """
        count = self.stack.shape.layers
        wrong = [layer for layer in layers if not -count <= layer + (layer < 0) <= count]
        if wrong or not layers:
            raise RequestError(
                f"data.vectors.layers: {self.name} has {count} layers; expected numbers from "
                f"{-count - 1} to {count}, got {wrong[0] if wrong else 'none'}"
            )
        return [layer + (count + 1) * (layer < 0) for layer in layers]

    @torch.inference_mode()
    def states(self, texts: Sequence[str], layers: Sequence[int] = (-1,)) -> list[PieceStates]:
        """The states of the pieces of texts, without those of special pieces.

        A text with more pieces than the encoder reads at once is read in windows that overlap by
        half; each piece is taken from the window in whose middle it is.

        Args:
            layers: as transformers counts `hidden_states`; see `numbered`.
        """
        wanted = self.numbered(layers)
        read = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        around = len(self.before) + len(self.behind)
        parts = [
            (text, *window)
            for text, one in enumerate(read)
            for window in windows(len(one.ids), self.room)
        ]
        found = [np.zeros((len(one.ids), len(wanted), self.dim), np.float32) for one in read]
        first = 0
        while first < len(parts):
            last, pieces = first, 0
            while last < len(parts) and (last == first or pieces < PIECES):
                pieces += parts[last][2] - parts[last][1] + around
                last += 1
            self._read(parts[first:last], read, wanted, found)
            first = last
        places = [np.array(one.offsets, np.int64).reshape(-1, 2) for one in read]
        return [PieceStates(own, at) for own, at in zip(found, places, strict=True)]

    def traced(self, text: str, last: int) -> "EncoderTrace":
        """The states of all layers of one text, in the graph of gradients; weights get none.

        Args:
            last: number of the last layer that is computed.

        Raises:
            RequestError: the text has more pieces than the encoder reads at once.
        """
        read = self.tokenizer.encode(text, add_special_tokens=False)
        ids = [*self.before, *read.ids, *self.behind]
        if len(read.ids) > self.room:
            raise RequestError(
                f"the text has {len(ids):,} pieces, and {self.name} reads "
                f"{self.stack.shape.longest:,} at once: look at a part of it"
            )
        lengths, first = torch.tensor([len(ids)]), len(self.before)
        with torch.no_grad():
            x = self.stack.first(torch.tensor(ids), lengths)
        names = [self.tokenizer.id_to_token(i) for i in ids]
        offsets = np.array(read.offsets, np.int64).reshape(-1, 2)
        states = self.stack.each(x.requires_grad_(), lengths, last)
        return EncoderTrace(names, offsets, slice(first, first + len(read.ids)), states)

    def _read(
        self, parts: Sequence[tuple[int, ...]], read: Any, wanted: list[int], found: list[Any]
    ) -> None:
        """Encode some windows and put what is kept of them in its place."""
        ids: list[int] = []
        lengths = []
        for text, start, end, *_ in parts:
            own = [*self.before, *read[text].ids[start:end], *self.behind]
            ids += own
            lengths.append(len(own))
        given = torch.tensor(ids), torch.tensor(lengths)
        where = self.stack.kind.device
        states = self.stack(*(one.to(where) for one in given), wanted).cpu().numpy()
        at = 0
        for (text, start, _, low, high), length in zip(parts, lengths, strict=True):
            here = at + len(self.before) - start
            found[text][low:high] = states[here + low : here + high]
            at += length


def windows(count: int, most: int) -> list[tuple[int, int, int, int]]:
    """Windows over `count` pieces of at most `most` each: (start, end, first kept, last kept).

    Example:
        >>> windows(3, 4), windows(7, 4)
        ([(0, 3, 0, 3)], [(0, 4, 0, 3), (2, 6, 3, 4), (3, 7, 4, 7)])
    """
    if not count:
        return []
    starts = [*range(0, max(count - most, 0), max(most // 2, 1)), max(count - most, 0)]
    ends = [min(start + most, count) for start in starts]
    cuts = [(a + b) // 2 for a, b in zip(starts[1:], ends[:-1], strict=True)]
    return list(zip(starts, ends, [0, *cuts], [*cuts, count], strict=True))
