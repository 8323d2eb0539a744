"""SentencePiece's rules for letters, looked through before they are used.

A charsmap is a number of bytes, a double array of that size (Darts) and texts that end in zeros.
The Rust library that follows it trusts every number in it and would end the process.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["check"]

LEAF, WIDE, LABEL, VALUE = 1 << 8, 1 << 9, 1 << 31 | 0xFF, (1 << 31) - 1
LETTERS = np.arange(1, 256, dtype=np.int64)
"""Bytes of a key; none is zero."""


def check(charsmap: bytes) -> None:
    """See that no text leads out of the array, or into the middle of a letter.

    Raises:
        ValueError: some does.
    """
    size = int.from_bytes(charsmap[:4], "little")
    if len(charsmap) < 8 or size % 4 or not 4 <= size <= len(charsmap) - 4:
        raise ValueError("its charsmap is cut off")
    units = np.frombuffer(charsmap, "<u4", size // 4, 4).astype(np.int64)
    texts = charsmap[4 + size :]
    texts.decode("utf-8")
    nexts = _offsets(units) ^ np.arange(len(units))
    met, waiting = set[int](), [int(nexts[0])]
    while waiting:
        at = waiting.pop()
        if at in met:
            continue
        met.add(at)
        places = at ^ LETTERS
        if places.max() >= len(units):
            raise ValueError("its charsmap leads out of itself")
        found = places[(units[places] & LABEL) == LETTERS]
        for place in found.tolist():
            if units[place] & LEAF:
                _check_text(units, int(nexts[place]), texts)
            waiting.append(int(nexts[place]))


def _offsets(units: NDArray[np.int64]) -> NDArray[np.int64]:
    return (units >> 10) << ((units & WIDE) >> 6)


def _check_text(units: NDArray[np.int64], place: int, texts: bytes) -> None:
    """The text of a rule: it begins with a letter, or is empty."""
    start = int(units[place]) & VALUE if place < len(units) else len(texts) + 1
    if start > len(texts) or (texts[start : start + 1] > b"\x7f" and texts[start] & 0xC0 == 0x80):
        raise ValueError("a rule of its charsmap has no text")
