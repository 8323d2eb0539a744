r"""A bag of n-grams in NumPy: what `models.bag_of_ngrams` adds to the logits of one text.

.. math:: y = b + \frac{\sum_{g \in G} c_g\, w_g}{\sqrt{\sum_{g \in G} c_g^2}}

with the distinct n-grams G of a text, their weights w and what they are worth, c: 1, an inverse
document frequency, or a log-count ratio for each class.

Source: Wang and Manning 2012, "Baselines and Bigrams"; Joulin et al. 2017, "Bag of Tricks for
Efficient Text Classification".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from regard.runtime.operators import Array

__all__ = ["NgramBag"]

LEAST = 1e-6
MIX = 0x9E3779B97F4A7C1
"""Both as in `models.bag_of_ngrams`."""


class NgramBag:
    """The weights of a bag.

    Args:
        stored: `path` (before the names of its weights), `vocab_size`, `ngrams`, `buckets` and
            `weighting`.
        weights: of the folder.
    """

    def __init__(self, stored: Mapping[str, Any], weights: Mapping[str, Array]) -> None:
        path, self.weighting = stored["path"], stored["weighting"]
        self.vocab_size: int = stored["vocab_size"]
        self.ngrams: int = stored["ngrams"]
        self.buckets: int = stored["buckets"]
        self._weight, self._bias = weights[f"{path}bags.weight"][0], weights[f"{path}bias"]
        self._idf = weights[f"{path}bags.idf"] if self.weighting == "idf" else None
        self._ratios = weights[f"{path}bags.ratios"][0] if self.weighting == "nb" else None

    def logits(self, rows: Sequence[Sequence[int]]) -> Array:
        """The logits (C,) of a text; n-grams stay within its rows of ids, as sentences are."""
        found = np.unique(np.concatenate([one for ids in rows for one in self.grams(ids)]))
        worth = self._worth(found)
        squares = np.square(worth).sum(0)
        if self._ratios is None:
            squares = np.maximum(squares, 1)
        total = (self._weight[found].astype(np.float64) * worth).sum(0)
        logits: Array = self._bias + total / np.maximum(np.sqrt(squares), LEAST)
        return logits

    def grams(self, ids: Sequence[int]) -> Iterator[Array]:
        """The rows of the n-grams of a sequence of ids, for n = 1, 2, …."""
        each = mixed = np.asarray(ids, np.int64)
        yield each
        for n in range(2, min(self.ngrams, len(each)) + 1):
            mixed = mixed[:-1] * np.int64(MIX) + each[n - 1 :]  # wraps around
            yield self.vocab_size + (mixed ^ (mixed >> 31)) % self.buckets

    def _worth(self, rows: Array) -> Array:
        """What multiplies the weights: (n, 1) or (n, C)."""
        if self._ratios is not None:
            found: Array = self._ratios[rows].astype(np.float64)
        elif self._idf is not None:
            found = self._idf[rows, None].astype(np.float64)
        else:
            found = np.ones((len(rows), 1))
        return found
