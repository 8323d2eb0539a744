"""States of an encoder's pieces joined to the words of a task, by their places in the text."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from regard.encoders.encoder import PieceStates

__all__ = ["POOLS", "pieces_of", "words_from"]

Array = NDArray[np.float32]


def _mean(states: Array, firsts: NDArray[np.int64], lasts: NDArray[np.int64]) -> Array:
    sums = np.concatenate([np.zeros_like(states[:1], np.float64), states.cumsum(0, np.float64)])
    counts = np.maximum(lasts - firsts, 1)[:, None, None]
    found: Array = ((sums[lasts] - sums[firsts]) / counts).astype(np.float32)
    return found


def _first(states: Array, firsts: NDArray[np.int64], lasts: NDArray[np.int64]) -> Array:
    found: Array = states[np.minimum(firsts, len(states) - 1)]
    return found * (lasts > firsts)[:, None, None].astype(np.float32)


POOLS: Mapping[str, Callable[[Array, NDArray[np.int64], NDArray[np.int64]], Array]] = {
    "first": _first,
    "mean": _mean,
}
"""What becomes of the states of a word's pieces; they run from the firsts to before the lasts."""


def words_from(pieces: PieceStates, places: NDArray[np.int64], pool: str) -> Array:
    """The state of each word: of the first piece in it, or the mean of those in it.

    A word without a piece, as a control character, has zeros; see `pieces_of`.

    Args:
        places: start and end of each word, in characters, in the order of the text.
        pool: one of `POOLS`.

    Shapes:
        places (words, 2) to (words, layers, dim)

    Example:
        >>> states = np.arange(3, dtype=np.float32).reshape(3, 1, 1)
        >>> pieces = PieceStates(states, np.array([[0, 2], [2, 4], [5, 7]]))
        >>> words_from(pieces, np.array([[0, 4], [5, 7]]), "mean").ravel().tolist()
        [0.5, 2.0]
    """
    states = pieces.states
    if not len(states):
        return np.zeros((len(places), *states.shape[1:]), np.float32)
    return POOLS[pool](states, *pieces_of(pieces.offsets, places))


def pieces_of(
    offsets: NDArray[np.int64], places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(the first piece in each word, the one behind its last): both have a character in common.

    Args:
        offsets: start and end of each piece, in characters, in the order of the text.
        places: those of each word.

    Shapes:
        offsets (pieces, 2), places (words, 2) to (words,) each
    """
    starts, ends = offsets.T
    firsts = np.searchsorted(ends, places[:, 0], "right")
    lasts = np.searchsorted(starts, places[:, 1], "left")
    return firsts, np.maximum(lasts, firsts)
