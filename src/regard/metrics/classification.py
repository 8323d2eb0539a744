"""Scores of classification: accuracy, macro-averaged F1, of relations too, and of one class."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.metrics.score import Score, Sums, same_number, signature

__all__ = ["accuracy", "directed_f1", "f1_of", "macro_f1"]

_DIRECTION = re.compile(r"\(e[12],e[12]\)$")


def accuracy(outputs: Sequence[str], references: Sequence[str]) -> Score:
    """The share of outputs that equal the reference, in percent.

    Raises:
        RequestError: nothing to score, or unequal numbers.

    Example:
        >>> accuracy(["a", "b", "b"], ["a", "b", "c"]).parts
        {'right': 2, 'total': 3}
    """
    same_number(outputs, references)
    each = np.array([a == b for a, b in zip(outputs, references, strict=True)])
    right = int(each.sum())
    return Score(
        "accuracy",
        100 * right / len(outputs),
        signature(metric="accuracy"),
        {"right": right, "total": len(outputs)},
        Sums.percent(each),
    )


def macro_f1(outputs: Sequence[str], references: Sequence[str]) -> Score:
    r"""The mean of the F1 of the classes, in percent.

    .. math:: \frac{1}{|C|} \sum_{c \in C} \frac{2\,TP_c}{2\,TP_c + FP_c + FN_c}

    C are the classes of the references, so a class that is never an output counts with 0. An
    output of another class counts as missed for the class of its reference. This is scikit-learn's
    `f1_score(average="macro", labels=C)`. In a bootstrap sample, C are the classes of the sample.

    Raises:
        RequestError: nothing to score, or unequal numbers.

    Example:
        >>> found = macro_f1(["a", "b", "b", "d"], ["a", "b", "c", "c"])
        >>> {name: round(f1, 1) for name, f1 in found.parts["f1"].items()}, round(found.value, 1)
        ({'a': 100.0, 'b': 66.7, 'c': 0.0}, 55.6)
    """
    same_number(outputs, references)
    names = sorted(set(references))
    said, true = _one_hot(outputs, names), _one_hot(references, names)
    marks = signature(metric="macro_f1", classes="of-references")
    return _macro("macro_f1", "classes", names, said & true, said, true, marks)


def directed_f1(outputs: Sequence[str], references: Sequence[str], other: str = "Other") -> Score:
    r"""The mean of the F1 of relations with a direction, in percent.

    .. math:: \frac{1}{|R|} \sum_{r \in R} \frac{2\,TP_r}{\mathrm{said}_r + \mathrm{there}_r}

    R are the relations of the references without their direction, `other` left out. TP counts
    outputs that equal the reference, direction and all; said and there count a relation in either
    direction. This is the official score of SemEval-2010 task 8: macro-averaged F1 of the (9+1)-way
    evaluation that takes directionality into account (scorer 1.2).

    Args:
        other: the label of what is not one of the relations; it has no direction.

    Raises:
        RequestError: nothing to score, or unequal numbers.

    Example:
        >>> true = ["Cause-Effect(e1,e2)", "Cause-Effect(e2,e1)", "Other"]
        >>> directed_f1(["Cause-Effect(e1,e2)", "Cause-Effect(e1,e2)", "Other"], true).value
        50.0
    """
    same_number(outputs, references)
    families = [[_DIRECTION.sub("", one) for one in side] for side in (outputs, references)]
    names = sorted({*families[1]} - {other})
    marks = signature(metric="macro_f1", classes="relations", direction="yes", without=other)
    if not names:
        parts = {"relations": 0, "f1": {}, "note": f"every reference is {other!r}"}
        return Score("f1", 0.0, marks, parts)
    said, true = (_one_hot(side, names) for side in families)
    equal = np.array([a == b for a, b in zip(outputs, references, strict=True)])
    right = said & true & equal[:, None]
    return _macro("f1", "relations", names, right, said, true, marks)


def f1_of(outputs: Sequence[str], references: Sequence[str], positive: str) -> Score:
    r"""The F1 of one class, in percent.

    .. math:: F_1 = \frac{2\,TP}{2\,TP + FP + FN}

    0 if the class is in no output and no reference, as in scikit-learn; `parts["note"]` says so.

    Args:
        positive: the class that counts.

    Raises:
        RequestError: nothing to score, or unequal numbers.

    Example:
        >>> found = f1_of(["1", "1", "0"], ["1", "0", "1"], positive="1")
        >>> found.value, found.parts["precision"], found.parts["recall"]
        (50.0, 50.0, 50.0)
    """
    same_number(outputs, references)
    said, true = _one_hot(outputs, [positive]), _one_hot(references, [positive])
    counts = np.concatenate([said & true, said, true], 1).astype(np.float64)
    right, given, wanted = (int(n) for n in counts.sum(0))
    parts: dict[str, Any] = {
        "precision": 100 * right / given if given else 0.0,
        "recall": 100 * right / wanted if wanted else 0.0,
        "right": right,
        "outputs": given,
        "references": wanted,
    }
    if not given and not wanted:
        parts["note"] = f"no output and no reference is {positive!r}"
    marks = signature(metric="f1", positive=positive)
    return Score("f1", float(_mean_f1(counts.sum(0))), marks, parts, Sums(counts, _mean_f1))


def _macro(
    name: str,
    what: str,
    names: Sequence[str],
    right: NDArray[np.bool_],
    said: NDArray[np.bool_],
    true: NDArray[np.bool_],
    marks: str,
) -> Score:
    """The mean F1 over the classes, `what` they are called, of what counts for each, (n, C)."""
    counts = np.concatenate([right, said, true], 1).astype(np.float64)
    sums = counts.sum(0)
    each = _f1(*sums.reshape(3, -1))
    parts: dict[str, Any] = {
        what: len(names),
        "f1": {one: float(f1) for one, f1 in zip(names, each, strict=True)},
    }
    return Score(name, float(_mean_f1(sums)), marks, parts, Sums(counts, _mean_f1))


def _one_hot(given: Sequence[str], names: Sequence[str]) -> NDArray[np.bool_]:
    """Which of the names each one is (n, C); none for another name."""
    index = {name: at for at, name in enumerate(names)}
    found = np.array([index.get(one, -1) for one in given])
    return np.asarray(found[:, None] == np.arange(len(names)))


def _f1(
    right: NDArray[Any], outputs: NDArray[Any], references: NDArray[Any]
) -> NDArray[np.float64]:
    """F1 in percent; 0 where the class is nowhere."""
    return np.asarray(200 * right / np.maximum(outputs + references, 1))


def _mean_f1(sums: NDArray[Any]) -> NDArray[np.float64]:
    """The mean F1, of sums (..., 3 C), over the classes that have references, or over all."""
    right, outputs, references = np.split(sums, 3, axis=-1)
    there = references > 0
    there = there | ~there.any(-1, keepdims=True)
    return np.asarray((_f1(right, outputs, references) * there).sum(-1) / there.sum(-1))
