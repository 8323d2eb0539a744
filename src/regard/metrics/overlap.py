r"""How much of one sequence of ids is in another, fast: what a reward is asked thousands of times.

    ROUGE-L = F1 of lcs(y, y*) / |y| and lcs(y, y*) / |y*|
    ROUGE-n = F1 of the clipped matches of n-grams

ids stand for words. Unknown words never match. Lin (2004), "ROUGE: A Package for Automatic
Evaluation of Summaries", without stems.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from regard.protocols import UNK

__all__ = ["OVERLAPS", "longest_common_subsequence", "rouge_l", "rouge_n"]


def longest_common_subsequence(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """How many items of two sequences are common to both in the same order.

    A row of the usual table is the bits of one integer, and a step a few operations on it (Hyyrö
    2004, "Bit-Parallel LCS-length Computation Revisited").

    Example:
        >>> longest_common_subsequence([5, 6, 7, 8], [6, 9, 8])
        2
    """
    places: dict[Hashable, int] = {}
    for place, item in enumerate(one):
        places[item] = places.get(item, 0) | 1 << place
    full = (1 << len(one)) - 1
    row = full
    for item in other:
        met = row & places.get(item, 0)
        row = (row + met | row - met) & full
    return len(one) - row.bit_count()


def rouge_l(output: Sequence[int], right: Sequence[int]) -> float:
    """ROUGE-L F1 of two sequences of words.

    Example:
        >>> rouge_l([5, 6, 7, 8], [6, 9, 8])
        0.5714285714285714
    """
    known = [i for i in output if i != UNK]
    return _f1(longest_common_subsequence(known, right), len(output), len(right))


def rouge_n(output: Sequence[Hashable], right: Sequence[Hashable], n: int = 1) -> float:
    """ROUGE-n F1 of two sequences of words.

    Example:
        >>> rouge_n([5, 6, 7], [5, 6, 9], n=2)
        0.5
    """
    found, there = (
        Counter(tuple(y[i : i + n]) for i in range(len(y) - n + 1)) for y in (output, right)
    )
    hits = sum(count for gram, count in (found & there).items() if UNK not in gram)
    return _f1(hits, found.total(), there.total())


def _f1(hits: int, output: int, right: int) -> float:
    return 2 * hits / (output + right) if hits else 0.0


OVERLAPS: Mapping[str, Callable[[Sequence[int], Sequence[int]], float]] = MappingProxyType(
    {"rouge-l": rouge_l, "rouge-1": partial(rouge_n, n=1), "rouge-2": partial(rouge_n, n=2)}
)
"""Overlaps by name."""
