"""Sentence vectors without a recurrence: a sum of words weighted by position."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["ENCODINGS", "Sentences", "bag_of_words", "position", "position_released"]

PAD = 0  # protocols.PAD, which is a floor above

Encoding = Callable[[Tensor, int, int, torch.dtype], Tensor]


class Sentences(NamedTuple):
    """Documents with deduplicated sentences.

    Args:
        words: the distinct sentences, right-padded; the first is empty.
        places: the sentence at each position of each document, 0 after its end.

    Shapes:
        words (U, W) int64, places (B, S) int64
    """

    words: Tensor
    places: Tensor

    def to(self, device: torch.device | str) -> "Sentences":
        """The same on another device."""
        return Sentences(self.words.to(device), self.places.to(device))

    @classmethod
    def of(cls, document: Int[Tensor, "batch sentence word"]) -> "Sentences":
        """Split documents into sentences, without deduplication (except for empty ones)."""
        batch, count, width = document.shape
        words = torch.cat([document.new_full((1, width), PAD), document.flatten(0, 1)])
        places = torch.arange(1, len(words), device=document.device).view(batch, count)
        return cls(words, places.masked_fill((document == PAD).all(-1), 0))


def bag_of_words(
    words: Int[Tensor, "*n word"], dim: int, longest: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "..."]:
    """Weight 1 at every position: (1, 1)."""
    return torch.ones(1, 1, dtype=dtype, device=words.device)


def position(
    words: Int[Tensor, "*n word"], dim: int, longest: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "..."]:
    r"""Position encoding as printed in the paper (Sukhbaatar et al. 2015, section 4.1).

    .. math:: l_{kj} = (1 - j/J) - (k/d)(1 - 2j/J)

    Words j and dimensions k are counted from 1; J is the sentence's own length.

    Args:
        words: right-padded sentences.
        dim: d.
        longest: unused.

    Shapes:
        words (*n, W) to weights (*n, W, d)
    """
    length = (words != PAD).sum(-1).clamp(min=1)[..., None, None]  # (*n, 1, 1)
    j = _count(words.shape[-1], words, dtype)[:, None] / length
    k = _count(dim, words, dtype) / dim
    return (1 - j) - k * (1 - 2 * j)


def position_released(
    words: Int[Tensor, "*n word"], dim: int, longest: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "..."]:
    r"""Position encoding of the authors' code, which differs from the paper.

    .. math:: l_{kj} = 1 + \frac{4}{dJ} \Big(k - \frac{d+1}{2}\Big) \Big(j - \frac{J+1}{2}\Big)

    Args:
        words: right-padded sentences.
        dim: d.
        longest: J, the length of the longest sentence, used for all sentences.

    Shapes:
        words (*n, W) to weights (W, d)

    Source: github.com/facebookarchive/MemNN (the formula only).
    """
    j = _count(words.shape[-1], words, dtype)[:, None] - (longest + 1) / 2
    k = _count(dim, words, dtype) - (dim + 1) / 2
    return 1 + 4 / (dim * longest) * k * j


def _count(size: int, like: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.arange(1, size + 1, dtype=dtype, device=like.device)


ENCODINGS: Mapping[str, Encoding] = {
    "bag-of-words": bag_of_words,
    "position": position,
    "position-released": position_released,
}
"""The values of a model's `encoding`: position weights of (words, d, J, dtype)."""
