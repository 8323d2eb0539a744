"""How many floats of work space a step of a program needs."""

from collections.abc import Sequence
from typing import NamedTuple

from regard.decode.program.instructions import BY_KEYS, BY_PAST, BY_WORDS, Slot
from regard.decode.program.step_values import SlotPlaces

__all__ = ["WorkSpace", "wide"]

SCORES = 16
"""Floats of scores that a thread needs beside one a key."""
BEST_PART, BEST_ROW = 512, 8
"""Words whose logits are made together, and floats of what is known of a row: native/best.h."""


class WorkSpace(NamedTuple):
    """The sizes on which the work space of a step depends.

    Args:
        rows: hypotheses of all sentences.
        keys, words, past: of the source, of the output, and of caches, the new key too.
        words_of_texts: rows are words of texts, as in an encoder.
        best: the best words of each row are wanted in the place of logits.
    """

    sentences: int
    rows: int
    keys: int
    words: int
    past: int
    threads: int
    words_of_texts: bool = False
    best: bool = False

    def floats(self, slots: Sequence[Slot], places: SlotPlaces, widest: int | None) -> int:
        """As program.c counts them.

        Args:
            slots: of the program; those with a place need none of the work space.
            widest: inputs of the widest product with narrow weights; None: they are float32.
        """
        count = self.threads * (wide(max(self.keys, self.past)) + SCORES + 2 * self.past)
        part = -(-self.sentences // self.threads) * (self.rows // max(self.sentences, 1))
        part = self.rows if self.words_of_texts else part
        if self.best:
            count += self.threads * (part * BEST_PART + wide(part * BEST_ROW))
        if widest is not None:
            narrow = 2 * wide(part) + wide(part * -(-widest // 128)) + part * widest // 2
            count += self.threads * wide(narrow)
        for number, slot in enumerate(slots):
            if places.at[number]:
                continue
            sizes = {BY_KEYS: self.keys, BY_WORDS: self.words, BY_PAST: self.past}
            width = sizes.get(slot.width, slot.width)
            each = slot.times * width * (2 if slot.integers else 1)
            each = each if slot.compact else wide(each)
            count += wide(each * (self.sentences if slot.space else self.rows))
        return count


def wide(n: int) -> int:
    """Up to a multiple of 16."""
    return n + -n % 16
