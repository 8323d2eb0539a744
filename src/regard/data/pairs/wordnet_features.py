"""Features of a pair of sentences from WordNet's relations between their words."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.text.wordnet import RELATIONS, WordNet

__all__ = ["related"]

FUNCTION = frozenset(
    """
    a an the is are be being am of in on at to by with and or there it its his her their he she
    they that this which who for from into some
    """.split()
)
"""Words that the relations of WordNet leave out."""


def related(
    sentences: Sequence[Sequence[str]], net: WordNet | None, one_denies: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """The features `wordnet` of `data.pairs.sentence_features`, a column each.

    Args:
        sentences: words in lower case; the i-th of n pairs is the i-th and the (n + i)-th.
        net: None: all are 0.
        one_denies: 1 where one sentence of a pair alone has a word of negation.
    """
    n, kinds = len(one_denies), {name: i for i, name in enumerate(RELATIONS)}
    size, last = len(kinds), len(kinds) - 1
    counts = np.zeros((n, 2, size))
    across = np.zeros((n, size - 2))  # all but "same" and "none"
    least = np.zeros((n, 2, size))
    for i in range(n if net is not None else 0):
        assert net is not None
        a, b = _content(sentences[i]), _content(sentences[n + i])
        of = np.array([[kinds[net.relation(u, v)] for v in b] for u in a], np.int64)
        of = of.reshape(len(a), len(b))
        nearest = of.min(1, initial=last), of.min(0, initial=last)
        for side in (0, 1):
            counts[i, side] = np.bincount(nearest[side], minlength=size)
            least[i, side, nearest[side].max(initial=0)] = 1
        left = of[nearest[0] > 0][:, nearest[1] > 0]
        across[i, left[left < last] - 1] = 1
    worst = least.reshape(n, 2 * size)
    found = [counts.reshape(n, 2 * size), across, worst, worst * one_denies[:, None]]
    return list(np.concatenate(found, 1).T)


def _content(words: Sequence[str]) -> list[str]:
    """The different words that mean something."""
    some = (w for w in dict.fromkeys(words) if w not in FUNCTION)
    return [w for w in some if any(map(str.isalnum, w))]
