"""Scores of multi-label classification."""

from collections.abc import Collection, Sequence

from regard.errors import RequestError
from regard.metrics.score import Score, signature

__all__ = ["f1_of_counts", "micro_f1"]


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
    if len(outputs) != len(references):
        raise RequestError(
            f"expected as many references as outputs, got {len(references)} and {len(outputs)}"
        )
    if not outputs:
        raise RequestError("nothing to score: there are no examples")
    right = false = missed = 0
    for said, true in zip(map(set, outputs), map(set, references), strict=True):
        right += len(said & true)
        false += len(said - true)
        missed += len(true - said)
    parts = {"right": right, "false": false, "missed": missed}
    return Score(
        "micro_f1", f1_of_counts(right, false, missed), signature(metric="micro_f1"), parts
    )


def f1_of_counts(right: int, false: int, missed: int) -> float:
    """F1 in percent; 100 if all counts are zero."""
    total = 2 * right + false + missed
    return 200 * right / total if total else 100.0
