"""An answer and the next ones, as most views have them below their pictures."""

import math
from collections.abc import Sequence

from regard.tasks.prediction import Prediction
from regard.views import ValuesPanel

__all__ = ["bars", "ranked"]


def ranked(best: Prediction) -> list[tuple[str, float]]:
    """An answer and the next ones, each with its probability; 0 where it has no score."""
    every = [best, *best.alternatives]
    return [(p.output, 0.0 if p.score is None else math.exp(p.score)) for p in every]


def bars(answers: Sequence[tuple[str, float]], title: str = "answers") -> ValuesPanel:
    """A bar for each answer."""
    return ValuesPanel(
        "bars", title, labels=tuple(a for a, _ in answers), values=tuple(p for _, p in answers)
    )
