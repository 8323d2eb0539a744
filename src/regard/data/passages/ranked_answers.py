"""Answers to questions about documents, from the log-probabilities of places."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.formats.cbt import BLANK
from regard.data.passages.questions import Question, parse

__all__ = ["asked_question", "candidates_in", "numbered", "ranked_spans", "ranked_words"]

Ranked = list[tuple[str, float | None]]
SHOWN = 5
"""Words or spans that are told of."""


def asked_question(text: str, most: int, *, blank: bool) -> Question | str:
    """The question of an input, or why it is not one; "" of an empty input.

    Args:
        most: words of a document.
        blank: whether the query needs a place for the answer.
    """
    if not text.strip():
        return ""
    try:
        found = parse(text)
    except ValueError as error:
        return str(error)
    if len(found.places) > most:
        return f"too long: {len(found.places)} words, at most {most}"
    if blank and BLANK not in found.query:
        return f"the query has no {BLANK}"
    return found


def numbered(words: Sequence[str]) -> dict[str, int]:
    """A number for each different word, in the order of their appearance."""
    first: dict[str, int] = {}
    for word in words:
        first.setdefault(word, len(first))
    return first


def candidates_in(question: Question, numbers: Mapping[str, int]) -> NDArray[np.int64]:
    """The number of each candidate; -1: it is not in the document."""
    return np.array([numbers.get(one, -1) for one in question.candidates], np.int64)


def ranked_words(
    question: Question,
    numbers: Sequence[int] | NDArray[Any],
    candidates: NDArray[np.int64],
    logs: NDArray[np.float64],
) -> Ranked:
    """Words with the logarithm of the sum over their places (None of nothing), best first.

    Args:
        numbers: of the word at each place, see `numbered`.
        candidates: see `candidates_in`.
        logs: (1, T).
    """
    mass = np.bincount(numbers, np.exp(logs[0]))
    if question.candidates:
        sums, names = np.where(candidates >= 0, mass[candidates], 0.0), question.candidates
    else:
        first = np.unique(numbers, return_index=True)[1]
        words = question.words
        sums, names = mass, [words[i] for i in first]
    order = np.argsort(-sums, kind="stable")
    order = order if question.candidates else order[:SHOWN]
    return [(names[i], math.log(sums[i]) if sums[i] > 0 else None) for i in order]


def ranked_spans(question: Question, logs: NDArray[np.float64], longest: int) -> Ranked:
    """The best spans, of at most `longest` words.

    Args:
        logs: (2, T), of first and last words.
    """
    size = logs.shape[1]
    joint = logs[0][:, None] + logs[1][None]
    legal = np.triu(np.ones((size, size), bool)) & ~np.triu(np.ones_like(joint, bool), longest)
    joint = np.where(legal, joint, -np.inf).ravel()
    top = np.argsort(-joint, kind="stable")[:SHOWN]
    ends = [divmod(int(i), size) for i in top if joint[i] > -np.inf] or [(0, 0)]
    return [(question.piece(a, b), float(joint[a * size + b])) for a, b in ends]
