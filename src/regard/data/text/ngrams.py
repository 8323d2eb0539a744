r"""Counts of n-grams with Witten-Bell smoothing: what word comes next, without a network.

.. math::
    P(w \mid h) = \frac{c(h w) + t(h) P(w \mid h')}{c(h) + t(h)}

c counts, t(h) is how many different words followed h, h' is h without its first word; the end of
the recursion is one in effect. Source: Witten and Bell (1991), method C; Chen and Goodman
(1998), section 2.5.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

__all__ = ["NGrams"]

_EDGE = "\n"
"""Before and behind a sentence."""


class NGrams:
    """A language model of counts.

    Args:
        sentences: what to count, each a list of words.
        order: n; words are told from the n - 1 before them.

    Example:
        >>> model = NGrams([["a", "b"], ["a", "c"]], order=2)
        >>> model.probability("b", ["a"]) > model.probability("d", ["a"])
        True
    """

    def __init__(self, sentences: Iterable[Sequence[str]], order: int = 3) -> None:
        self.order = order
        self.followers: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for sentence in sentences:
            words = [*[_EDGE] * (order - 1), *sentence, _EDGE]
            for at in range(order - 1, len(words)):
                for size in range(order):
                    self.followers[tuple(words[at - size : at])][words[at]] += 1
        self.totals = {history: seen.total() for history, seen in self.followers.items()}
        self.words = len(self.followers[()]) + 1
        """Different words, with one for all that were never seen."""

    def probability(self, word: str, history: Sequence[str]) -> float:
        """Of the next word; only the last n - 1 of the history count."""
        found = 1 / self.words
        for size in range(self.order):
            if size > len(history):
                break
            key = tuple(history[len(history) - size :])
            seen = self.followers.get(key)
            if seen is None:  # a longer history was not met either
                break
            found = (seen[word] + len(seen) * found) / (self.totals[key] + len(seen))
        return found

    def around(self, sentence: Sequence[str], place: int) -> float:
        """The log-probability of what the word at `place` has a part in: itself and what it tells.

        Sentences that differ in this word alone are so compared.
        """
        words = [*[_EDGE] * (self.order - 1), *sentence, _EDGE]
        first = place + self.order - 1
        return sum(
            math.log(self.probability(words[at], words[at - self.order + 1 : at]))
            for at in range(first, min(first + self.order, len(words)))
        )
