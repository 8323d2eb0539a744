"""BPE-dropout: a word cut into other pieces each time it is read, so that a model learns its parts.

Byte-pair encoding joins letters by a list of merges, the first of the list first. Here each merge
that could be done is left out with probability p, at each step again; with p = 0 the pieces are the
usual ones, with p = 1 they are letters (Provilkov, Emelianenko and Voita 2020, "BPE-Dropout: Simple
and Effective Subword Regularization", Algorithm 1).
"""

import json
import math
from itertools import pairwise
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.ragged import RaggedIds
from regard.data.text.tokenizer import Tokenizer
from regard.data.text.vocabulary_kinds import SPACE
from regard.errors import RequestError
from regard.runtime.special_ids import UNK

__all__ = ["BpeDropout"]

KNOWN = 1_000_000
"""Words whose number of merges is kept; then they are counted again."""
ALL = 1 << 30
"""More merges than any word has."""


class BpeDropout:
    """Cuts token ids again, at random.

    Args:
        tokenizer: of kind "bpe".
        dropout: the probability p that a merge is left out, from 0 to 1.

    Raises:
        RequestError: a tokenizer without merges, or no probability.

    Example:
        >>> tokenizer = Tokenizer.train(["ein Haus", "ein Hund"], vocab_size=40)
        >>> ids = RaggedIds.rows([tokenizer.encode("ein Hund").ids])
        >>> cut = BpeDropout(tokenizer, 1.0)(ids)
        >>> tokenizer.tokens(cut[0].tolist()), tokenizer.decode(cut[0].tolist())
        (['▁', 'e', 'i', 'n', '▁', 'H', 'u', 'n', 'd'], 'ein Hund')
    """

    def __init__(self, tokenizer: Tokenizer, dropout: float) -> None:
        if tokenizer.kind != "bpe":
            raise RequestError(
                f"BPE-dropout leaves out merges, and a tokenizer of kind {tokenizer.kind!r} has "
                "none: data.tokenizer.kind must be bpe"
            )
        if tokenizer.segmenter is not None:
            raise RequestError(
                "BPE-dropout cuts between blanks, and this tokenizer cuts words of a segmenter: "
                "leave out data.tokenizer.segmenter or task.bpe_dropout"
            )
        if not 0.0 <= dropout <= 1.0:
            raise RequestError(f"the dropout of merges is {dropout}; it must be from 0 to 1")
        self.dropout = dropout
        names = tokenizer.vocabulary
        number = {name: i for i, name in enumerate(names)}
        self._merges: dict[tuple[int, int], tuple[int, int]] = {}
        merges = json.loads(tokenizer.to_json())["model"]["merges"]
        for rank, (left, right) in enumerate(merges):
            self._merges[number[left], number[right]] = rank, number[left + right]
        self._letters = [
            [i] if i <= UNK else [number[letter] for letter in name if letter in number]
            for i, name in enumerate(names)
        ]
        self._begins = np.array([name.startswith(SPACE) for name in names])
        self._count: dict[tuple[int, ...], int] = {}

    def __call__(self, rows: RaggedIds) -> RaggedIds:
        """The same texts in other pieces, drawn from PyTorch's generator.

        Args:
            rows: ids as the tokenizer gives them. A word with an unknown letter stays as it is.
        """
        flat = rows.flat
        begins = self._begins[flat]
        begins[rows.starts[:-1][rows.sizes > 0]] = True
        starts = np.flatnonzero(begins)
        ids = flat.tolist()
        ends = [*starts[1:].tolist(), len(ids)]
        words = [tuple(ids[a:b]) for a, b in zip(starts.tolist(), ends, strict=True)]
        merges = np.fromiter(map(self._merges_of, words), np.int64, len(words))
        done, random = self._drawn(len(words))
        found = list(words)
        for n in np.flatnonzero(done < merges).tolist():
            found[n] = tuple(self._cut(words[n], int(done[n]), random))
        sizes = np.fromiter(map(len, found), np.int64, len(found))
        # A row's words are one after the other: its size is the sum of theirs.
        whole = np.concatenate([[0], np.cumsum(sizes)])
        first = starts.searchsorted(rows.starts)
        made = np.fromiter((i for word in found for i in word), np.int32, int(sizes.sum()))
        return RaggedIds(made, whole[first].astype(np.int64))

    def _drawn(self, count: int) -> tuple[NDArray[np.int64], Random]:
        """Of each word how many of its usual merges are done before the first is left out.

        Until then nothing else that is drawn matters, so that most words need no further look.
        """
        random = Random(int(torch.randint(1 << 62, ())))
        if self.dropout in (0.0, 1.0):
            return np.full(count, 0 if self.dropout else ALL, np.int64), random
        drawn = torch.rand(count, dtype=torch.float64).numpy()
        with np.errstate(divide="ignore"):
            runs = np.log(drawn) / math.log1p(-self.dropout)
        return np.minimum(runs, ALL).astype(np.int64), random

    def _merges_of(self, word: tuple[int, ...]) -> int:
        """How many merges make the usual pieces of a word: one less in number with each."""
        count = self._count.get(word)
        if count is None:
            if len(self._count) >= KNOWN:
                self._count.clear()
            known = UNK not in word
            count = sum(len(self._letters[i]) for i in word) - len(word) if known else 0
            self._count[word] = count
        return count

    def _cut(self, word: tuple[int, ...], done: int, random: Random) -> list[int]:
        """A word whose first `done` merges are the usual ones, and whose next is left out."""
        pieces = [letter for i in word for letter in self._letters[i]]
        for _ in range(done):
            self._join(pieces, min(self._possible(pieces)))
        left_out = True
        while possible := sorted(self._possible(pieces)):
            kept = [
                one
                for n, one in enumerate(possible)
                if not (left_out and n == 0) and random.random() >= self.dropout
            ]
            left_out = False
            if not kept:
                break
            self._join(pieces, kept[0])
        return pieces

    def _possible(self, pieces: list[int]) -> list[tuple[int, int, int]]:
        """The merges that could be done: rank, place, what comes of it."""
        found = []
        for place, pair in enumerate(pairwise(pieces)):
            if (merge := self._merges.get(pair)) is not None:
                found.append((merge[0], place, merge[1]))
        return found

    @staticmethod
    def _join(pieces: list[int], merge: tuple[int, int, int]) -> None:
        _, place, joined = merge
        pieces[place : place + 2] = [joined]
