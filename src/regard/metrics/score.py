"""Scores: a value, and a signature that says how it was computed."""

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import __version__
from regard.data.text.normal_form import composed_all
from regard.errors import RequestError

__all__ = ["Flags", "Numbers", "References", "Score", "Sums", "comparable", "numbers", "signature"]

References = Sequence[str] | Sequence[Sequence[str]]
"""One reference an example, or several."""

Numbers = Sequence[float] | Sequence[int] | NDArray[Any]
"""One number an example."""

Flags = Sequence[bool] | NDArray[np.bool_]
"""One statement an example, true or not."""


@dataclass(frozen=True, eq=False)
class Sums:
    """A score as a function of sums over examples, for intervals and significance tests.

    Args:
        counts: the counts of each example: (example, count).
        of: maps sums (..., count) to scores (...).
    """

    counts: np.ndarray
    of: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def percent(cls, counts: np.ndarray) -> "Sums":
        """100 Σ first / Σ second; with one column, 100 times the mean."""
        if counts.ndim == 1:
            counts = np.stack([counts, np.ones(len(counts))], 1)
        return cls(counts.astype(np.float64), lambda sums: 100 * sums[..., 0] / sums[..., 1])


@dataclass(frozen=True)
class Score:
    """A score of a whole set of examples.

    Args:
        name: the usual name: "bleu", "per".
        value: 0 to 100 (error rates can be higher).
        signature: what was computed, with which settings and version.
        parts: components of the value: counts, precisions, a confidence interval.
        sums: the score as sums over examples, if it is a function of sums.
    """

    name: str
    value: float
    signature: str
    parts: Mapping[str, Any] = field(default_factory=dict)
    sums: Sums | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        """The score as text.

        Example:
            >>> print(Score("per", 12.3456, "edit:levenshtein|version:regard-0.1"))
            PER 12.35 (edit:levenshtein|version:regard-0.1)
        """
        return f"{self.name.upper()} {self.value:.2f} ({self.signature})"


def signature(**fields: str | int) -> str:
    """What was computed, in sacreBLEU's format `key:value|…`, with the version of this package."""
    named = {**fields, "version": f"regard-{__version__}"}
    return "|".join(f"{k}:{v}" for k, v in named.items())


def comparable(
    hypotheses: Sequence[str], references: References
) -> tuple[list[str], list[list[str]]]:
    """The hypotheses, and the references of each as a list: checked, and in NFC.

    A text scores the same whichever normal form its file is in.

    Raises:
        RequestError: nothing to score, unequal numbers, or an example without a reference.
    """
    if len(hypotheses) != len(references):
        raise RequestError(
            f"expected as many references as outputs, got {len(references)} and {len(hypotheses)}"
        )
    if not hypotheses:
        raise RequestError("nothing to score: there are no examples")
    found = [composed_all([r] if isinstance(r, str) else r) for r in references]
    for number, several in enumerate(found, start=1):
        if not several:
            raise RequestError(f"example {number} has no reference to score against")
    return composed_all(hypotheses), found


def numbers(what: str, given: Numbers) -> NDArray[np.float64]:
    """The numbers of the examples as an array (n,), checked.

    Args:
        what: what one of them is, for the error.

    Raises:
        RequestError: one of them is infinite or not a number.
    """
    found = np.asarray(given, np.float64).reshape(-1)
    if not np.isfinite(found).all():
        at = int(np.flatnonzero(~np.isfinite(found))[0])
        raise RequestError(f"expected finite numbers, got {what} {found[at]} in example {at + 1}")
    return found


def same_number(outputs: Sized, references: Sized, what: str = "references") -> None:
    """Check that there are examples, and one reference for each output.

    Raises:
        RequestError: nothing to score, or unequal numbers.
    """
    if len(outputs) != len(references):
        raise RequestError(
            f"expected as many {what} as outputs, got {len(references)} and {len(outputs)}"
        )
    if not len(outputs):
        raise RequestError("nothing to score: there are no examples")


def count_of(found: Sequence[Sequence[str]]) -> str | int:
    """The number of references per example, or "var" if it varies, as in sacreBLEU."""
    numbers = {len(several) for several in found}
    return numbers.pop() if len(numbers) == 1 else "var"
