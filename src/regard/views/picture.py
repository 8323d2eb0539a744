"""Weights with words on their axes: pieces put together to the words that people read."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.text.tokenizer import SPACE, Encoding, Tokenizer, word_groups
from regard.errors import RequestError
from regard.protocols import EOS

__all__ = ["Picture", "WordPieces", "picture"]

END = "</s>"
APART = frozenset(".,;:!?…\"'()[]«»„“”‚‘’¿¡、。，！？")
"""Marks that stand by themselves on the axes where a piece of their own has them."""


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
class WordPieces:
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
    def of(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> "WordPieces":
        """Of an output's ids, which may end in EOS."""
        inside = list(ids[:-1]) if ids and ids[-1] == EOS else list(ids)
        tokens = tokenizer.tokens(inside)
        groups = _apart(word_groups(tokenizer.words(inside)), tokens)
        texts = [tokenizer.decode([inside[i] for i in group]) for group in groups]
        texts = [
            text or "".join(tokens[i] for i in group)
            for text, group in zip(texts, groups, strict=True)
        ]
        return cls._ended(tokens, groups, texts, len(inside) < len(ids))

    @classmethod
    def of_text(cls, tokenizer: Tokenizer, encoding: Encoding) -> "WordPieces":
        """Of an input with its end token: words as they were written, even where unknown."""
        groups = _apart(word_groups(encoding.words), encoding.tokens)
        texts = [
            encoding.text[encoding.offsets[group[0]][0] : encoding.offsets[group[-1]][1]].strip()
            or "".join(encoding.tokens[i] for i in group)
            for group in groups
        ]
        return cls._ended(encoding.tokens, groups, texts, True)

    @classmethod
    def _ended(
        cls, pieces: Sequence[str], groups: list[list[int]], texts: list[str], ended: bool
    ) -> "WordPieces":
        if not ended:
            return cls(list(pieces), groups, texts)
        return cls([*pieces, END], [*groups, [len(pieces)]], [*texts, END])


def _apart(groups: list[list[int]], pieces: Sequence[str]) -> list[list[int]]:
    """Marks before and after a word become words: `(file).` is `(`, `file`, `)`, `.`."""
    found: list[list[int]] = []
    for group in groups:
        units: list[list[int]] = []
        for i in group:  # a space that is a piece of its own belongs to what follows
            if units and pieces[units[-1][-1]] == SPACE:
                units[-1].append(i)
            else:
                units.append([i])
        mark = [_is_mark("".join(pieces[i] for i in unit)) for unit in units]
        first = next((n for n, m in enumerate(mark) if not m), len(units))
        last = next((len(units) - n for n, m in enumerate(reversed(mark)) if not m), first)
        found += units[:first]
        found += [[i for unit in units[first:last] for i in unit]] if first < last else []
        found += units[last:]
    return found


def _is_mark(piece: str) -> bool:
    text = piece.lstrip(SPACE)
    return bool(text) and set(text) <= APART


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
