"""Only well-formed trees of one sentence: `decode.rules.trees` in NumPy, with its conditions."""

import re
from collections.abc import Sequence

import numpy as np

from regard.runtime.operators import Array
from regard.runtime.special_ids import EOS, UNK

__all__ = ["TreeRule", "TreeSymbols"]

OPEN, CLOSE, TAG, OTHER = 1, -1, 0, 2
_NUMBER = re.compile(r"[A-Z]+(\d+)")
RUN, DEEPEST = 12, 100
"""The most brackets opened in a row, and open at once."""


class TreeSymbols:
    """What the symbols of a vocabulary do: "(X" opens, ")X" closes an X, ")" whatever is open.

    Args:
        vocabulary: the symbol of each id; all others but the special ones are tags, one a word.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        kinds = [
            OTHER if i <= UNK else {"(": OPEN, ")": CLOSE}.get(symbol[:1], TAG)
            for i, symbol in enumerate(vocabulary)
        ]
        labels: dict[str, int] = {}
        self.kind = np.array(kinds)
        self.label = np.array(
            [
                labels.setdefault(symbol[1:], len(labels)) if kind in (OPEN, CLOSE) else -1
                for kind, symbol in zip(kinds, vocabulary, strict=True)
            ]
        )
        number = np.array([_number(symbol) for symbol in vocabulary])
        places = np.arange(max(int(number.max()) + 1, 1))[:, None]
        self.tags = (self.kind == TAG) & ((number < 0) | (number == places))
        """[i]: those of a word at place i, modulo the numbers that there are."""
        whatever = self.label == labels.get("", -2)
        fits = [(self.label == label) | whatever for label in labels.values()]
        self.closes = np.stack([*fits, np.zeros_like(whatever)]) & (self.kind == CLOSE)
        """[i]: what closes a bracket of label i; the last row is for where none is open."""


class TreeRule:
    """What a hypothesis of a tree may go on with.

    Args:
        symbols: of the vocabulary.
        words: how many the sentence has.
        limit: the most tokens of the output, EOS counted.
    """

    def __init__(self, symbols: TreeSymbols, words: int, limit: int) -> None:
        self.symbols, self.words, self.limit = symbols, words, limit

    def __call__(self, read: Array) -> Array:
        """Which tokens are possible (width, V), behind those that were read (width, t)."""
        return np.stack([self._free(row) for row in read])

    def _free(self, read: Array) -> Array:
        own = self.symbols
        kind = own.kind[read]
        written = int((kind == TAG).sum())
        left, room = self.words - written, self.limit - len(read)
        opened, label, depth = self._open(read, kind)
        free: Array = own.closes[-1 if opened else label].copy()
        if left > 0:
            free |= own.tags[written % len(own.tags)]
            if opened < RUN and depth < DEEPEST and room > depth + left + 2:
                free |= own.kind == OPEN
        free[EOS] = left <= 0 and depth <= 0
        return free

    def _open(self, read: Array, kind: Array) -> tuple[int, int, int]:
        """How many brackets were just opened, the label of the innermost, how many are open."""
        if not len(read):
            return 0, -1, 0
        level = np.where(kind == OTHER, 0, kind).cumsum()
        depth = int(level[-1])
        led = np.flatnonzero((kind == OPEN) & (level == depth))
        label = int(self.symbols.label[read[led[-1]]]) if len(led) and depth > 0 else -1
        others = np.flatnonzero(kind != OPEN)
        opened = len(read) - 1 - (int(others[-1]) if len(others) else -1)
        return opened, label, depth


def _number(symbol: str) -> int:
    found = _NUMBER.fullmatch(symbol)
    return int(found[1]) if found else -1
