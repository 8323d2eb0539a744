"""Scores of multi-label classification."""

from collections.abc import Collection, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.metrics.score import Score, same_number, signature

__all__ = ["counts_of_sets", "f1_of_counts", "micro_f1"]


def micro_f1(outputs: Sequence[Collection[str]], references: Sequence[Collection[str]]) -> Score:
    r"""Micro-averaged F1 over all classes, in percent (Hamilton et al. 2017, PPI).

    .. math:: F_1 = \frac{2\,TP}{2\,TP + FP + FN}

    100 if there are no classes in references and outputs.

    Raises:
        RequestError: nothing to score, or unequal numbers.

    Example:
        >>> micro_f1([{"a"}, {"a", "b"}], [{"a"}, {"b"}]).parts
        {'right': 2, 'false': 1, 'missed': 0}
    """
    right, false, missed = counts_of_sets(outputs, references).sum(0).tolist()
    parts = {"right": right, "false": false, "missed": missed}
    return Score(
        "micro_f1", f1_of_counts(right, false, missed), signature(metric="micro_f1"), parts
    )


def counts_of_sets(
    outputs: Sequence[Collection[Hashable]], references: Sequence[Collection[Hashable]]
) -> NDArray[np.int64]:
    """Of each example how many are right, said and not right, and missed: (n, 3).

    Raises:
        RequestError: nothing to score, or unequal numbers.
    """
    same_number(outputs, references)
    pairs = zip(map(set, outputs), map(set, references), strict=True)
    return np.array(
        [(len(said & true), len(said - true), len(true - said)) for said, true in pairs], np.int64
    )


def f1_of_counts(right: int, false: int, missed: int) -> float:
    """F1 in percent; 100 if all counts are zero."""
    total = 2 * right + false + missed
    return 200 * right / total if total else 100.0
