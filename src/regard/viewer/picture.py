"""Weights with words on their axes: pieces put together to the words that people read."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.tokenize import Encoding, Tokenizer, word_groups
from regard.errors import RequestError
from regard.protocols import EOS

__all__ = ["Picture", "Words", "picture"]

END = "</s>"


@dataclass(frozen=True)
class Picture:
    """A row for each output word, a column for each input word.

    Shapes:
        weights (rows, columns)
    """

    rows: list[str]
    columns: list[str]
    weights: Tensor

    def row(self, number: int) -> "Picture":
        """One row alone, counted from 1.

        Raises:
            RequestError: there are not so many.
        """
        if not 1 <= number <= len(self.rows):
            raise RequestError(f"there is no step {number}: the picture has 1 to {len(self.rows)}")
        at = number - 1
        return Picture([self.rows[at]], self.columns, self.weights[at : at + 1])


@dataclass(frozen=True)
class Words:
    """The pieces of a sequence, end token included, and how they make words.

    Args:
        pieces: the text of each piece.
        groups: the places of the pieces of each word, in order.
        texts: the text of each word.
    """

    pieces: list[str]
    groups: list[list[int]]
    texts: list[str]

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> "Words":
        """Of an output's ids, which may end in EOS."""
        inside = list(ids[:-1]) if ids and ids[-1] == EOS else list(ids)
        groups = word_groups(tokenizer.words(inside))
        texts = [tokenizer.decode([inside[i] for i in group]) for group in groups]
        tokens = tokenizer.tokens(inside)
        texts = [
            text or "".join(tokens[i] for i in group)
            for text, group in zip(texts, groups, strict=True)
        ]
        return cls._ended(tokens, groups, texts, len(inside) < len(ids))

    @classmethod
    def of_text(cls, tokenizer: Tokenizer, encoding: Encoding) -> "Words":
        """Of an input with its end token: words as they were written, even where unknown."""
        groups = word_groups(encoding.words)
        texts = [
            encoding.text[encoding.offsets[group[0]][0] : encoding.offsets[group[-1]][1]].strip()
            or "".join(encoding.tokens[i] for i in group)
            for group in groups
        ]
        return cls._ended(encoding.tokens, groups, texts, True)

    @classmethod
    def _ended(
        cls, pieces: Sequence[str], groups: list[list[int]], texts: list[str], ended: bool
    ) -> "Words":
        if not ended:
            return cls(list(pieces), groups, texts)
        return cls([*pieces, END], [*groups, [len(pieces)]], [*texts, END])


def picture(weights: Tensor, rows: Words, columns: Words, *, whole: bool = True) -> Picture:
    """Put labels on weights over pieces.

    A word gets the sum of what its pieces get, and looks where its pieces look on average, so rows
    add up to what they did.

    Args:
        weights: over the pieces of `rows` and `columns`.
        rows: the output's (or whatever looks).
        columns: the input's (or whatever is looked at).
        whole: words; else the pieces as they are.

    Shapes:
        weights (T, S)
    """
    if not whole:
        return Picture(rows.pieces, columns.pieces, weights)
    summed = torch.stack([weights[:, group].sum(1) for group in columns.groups], 1)  # (T, words)
    means = torch.stack([summed[group].mean(0) for group in rows.groups])  # (words, words)
    return Picture(rows.texts, columns.texts, means)
