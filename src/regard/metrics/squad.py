"""Exact match and F1 of answer spans, as in SQuAD's official scorer."""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from regard.metrics.score import References, Score, Sums, comparable, signature

__all__ = ["exact_match", "normalized", "span_f1"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_MARKS = frozenset(string.punctuation)


def normalized(answer: str) -> str:
    """Lower-cased, without ASCII punctuation and articles, with single spaces.

    Example:
        >>> normalized("The  well-to-do farmer.")
        'welltodo farmer'
    """
    bare = "".join(letter for letter in answer.lower() if letter not in _MARKS)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact_match(outputs: Sequence[str], references: References) -> Score:
    """The share of outputs that equal a correct answer after normalization, in percent.

    Source: Rajpurkar et al. (2016), section 6.1.

    Example:
        >>> exact_match(["The farmer!"], [["a farmer", "seven sons"]]).value
        100.0
    """
    return _mean("em", outputs, references, lambda a, b: float(normalized(a) == normalized(b)))


def span_f1(outputs: Sequence[str], references: References) -> Score:
    """The mean word-level F1 of each output with its nearest correct answer, in percent.

    Source: Rajpurkar et al. (2016), section 6.1.

    Example:
        >>> print(round(span_f1(["the old farmer"], [["a farmer"]]).value, 2))
        66.67
    """
    return _mean("f1", outputs, references, _f1)


def _f1(output: str, reference: str) -> float:
    """F1 of two answers; if one is empty, 1 for equal ones and else 0, as in SQuAD 2.0."""
    said, right = normalized(output).split(), normalized(reference).split()
    if not said or not right:
        return float(said == right)
    common = sum((Counter(said) & Counter(right)).values())
    return 2 * common / (len(said) + len(right)) if common else 0.0


def _mean(
    name: str, outputs: Sequence[str], references: References, score: Callable[[str, str], float]
) -> Score:
    outputs, found = comparable(outputs, references)
    each = [max(score(o, r) for r in rs) for o, rs in zip(outputs, found, strict=True)]
    text = signature(metric=name, norm="squad")
    return Score(
        name, 100 * sum(each) / len(each), text, {"each": each}, Sums.percent(np.array(each))
    )
