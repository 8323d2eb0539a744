"""Weights with words on their axes: pieces put together to the words that people read."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import RequestError
from regard.views.word_pieces import WordPieces

__all__ = ["Picture", "WordPieces", "picture"]


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
            RequestError: there are fewer.
        """
        if not 1 <= number <= len(self.rows):
            raise RequestError(f"there is no step {number}: the picture has 1 to {len(self.rows)}")
        at = number - 1
        return Picture([self.rows[at]], self.columns, self.weights[at : at + 1])


def picture(
    weights: Tensor, rows: WordPieces, columns: WordPieces, *, whole: bool = True
) -> Picture:
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
