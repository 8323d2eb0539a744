r"""Scores of ranked answers to questions: mean average precision, mean reciprocal rank.

.. math::
    \text{MAP} = \frac{1}{|Q|} \sum_{q \in Q} \frac{1}{R_q} \sum_{k:\, \text{answer } k \text{ is
    relevant}} \frac{\#\{\text{relevant answers among the first } k\}}{k}, \qquad
    \text{MRR} = \frac{1}{|Q|} \sum_{q \in Q} \frac{1}{\text{rank of the first relevant answer}}

Answers are ranked by descending score. trec_eval ranks answers with equal scores by descending
document id; with the number of the row as the id, the later row comes first here.

Which questions count changes both scores by several points (Rao, He and Lin 2016): all that have a
relevant answer, or only those that also have an irrelevant one ("clean" TrecQA). The others' scores
are the same for every ranking, 0 or 1; pytrec_eval has them in its results.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError, nearest
from regard.metrics.score import Flags, Numbers, Score, Sums, numbers, same_number, signature

__all__ = ["QUESTIONS", "mean_average_precision", "mean_reciprocal_rank"]

QUESTIONS: Mapping[str, Callable[[NDArray[np.bool_]], bool]] = {
    "both": lambda relevant: bool(relevant.any() and not relevant.all()),
    "any": lambda relevant: bool(relevant.any()),
}
"""Which questions count: those with relevant and irrelevant answers, or with a relevant one."""


def mean_average_precision(
    groups: Sequence[str], scores: Numbers, relevant: Flags, questions: str = "both"
) -> Score:
    """Mean average precision, times 100.

    Args:
        groups: the question of each answer; a question's answers may stand anywhere.
        scores: of each answer, higher is better.
        relevant: whether each answer is right.
        questions: one of `QUESTIONS`.

    Raises:
        RequestError: unequal numbers, no question that counts, or another rule for questions.

    Example:
        >>> found = mean_average_precision(["q", "q", "q"], [0.9, 0.5, 0.1], [True, False, True])
        >>> round(found.value, 2)
        83.33
    """
    return _mean("map", _precision, groups, scores, relevant, questions)


def mean_reciprocal_rank(
    groups: Sequence[str], scores: Numbers, relevant: Flags, questions: str = "both"
) -> Score:
    """Mean reciprocal rank of the first relevant answer, times 100.

    Args:
        groups: the question of each answer; a question's answers may stand anywhere.
        scores: of each answer, higher is better.
        relevant: whether each answer is right.
        questions: one of `QUESTIONS`.

    Raises:
        RequestError: unequal numbers, no question that counts, or another rule for questions.

    Example:
        >>> mean_reciprocal_rank(["q", "q", "q"], [0.9, 0.5, 0.1], [False, True, True]).value
        50.0
    """
    return _mean("mrr", _reciprocal, groups, scores, relevant, questions)


def _mean(
    name: str,
    of: Callable[[NDArray[np.bool_]], float],
    groups: Sequence[str],
    scores: Numbers,
    relevant: Flags,
    questions: str,
) -> Score:
    if questions not in QUESTIONS:
        raise RequestError(
            f"expected a rule for the questions that count, got {questions!r}; "
            f"{nearest(questions, QUESTIONS)}"
        )
    same_number(scores, groups, "questions")
    same_number(scores, relevant, "judgments")
    found, right = numbers("the score", scores), np.asarray(relevant, bool)
    number: dict[str, int] = {}
    which = np.array([number.setdefault(group, len(number)) for group in groups])
    # By question, then descending score, then descending row.
    order = np.lexsort((-np.arange(len(found)), -found, which))
    ranked = np.split(right[order], np.cumsum(np.bincount(which))[:-1])
    each = np.array([of(one) for one in ranked if QUESTIONS[questions](one)])
    if not len(each):
        raise RequestError(
            f"nothing to score: none of {len(ranked)} questions has relevant answers"
            + (" and irrelevant ones" if questions == "both" else "")
        )
    parts: dict[str, Any] = {
        "questions": len(each),
        "left_out": len(ranked) - len(each),
        "answers": len(found),
    }
    marks = signature(metric=name, questions=questions, ties="later-first")
    return Score(name, float(100 * each.mean()), marks, parts, Sums.percent(each))


def _precision(relevant: NDArray[np.bool_]) -> float:
    """Average precision of one question, its answers in order."""
    ranks = np.flatnonzero(relevant) + 1
    return float((np.arange(1, len(ranks) + 1) / ranks).mean())


def _reciprocal(relevant: NDArray[np.bool_]) -> float:
    return 1 / (int(relevant.argmax()) + 1)
