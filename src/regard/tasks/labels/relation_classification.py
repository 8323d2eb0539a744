"""Relations in sentences: what two marked words are to each other, by a `Classifier`."""

from collections.abc import Sequence
from typing import Any, ClassVar

from regard.fields import MarkedTextField, TextField
from regard.metrics import Score, accuracy, directed_f1
from regard.tasks.labels.base import Labeling, confidence
from regard.tasks.prediction import Prediction

__all__ = ["RelationClassification"]


class RelationClassification(Labeling):
    """The relation between two marked places of a sentence, and its direction.

    A text is `The <e1>fire</e1> was caused by <e2>lightning</e2>.`, its label
    `Cause-Effect(e2,e1)`: the lightning is the cause. `Other` is not one of the relations.

    Args:
        settings: see `Labeling`.
    """

    name: ClassVar[str] = "relation-classification"
    text_field: ClassVar[type[TextField]] = MarkedTextField
    metric: ClassVar[str] = "f1"
    lower_is_better: ClassVar[frozenset[str]] = Labeling.lower_is_better | {"ece"}

    def __init__(
        self,
        *,
        weights: str = "",
        focal: float = 0.0,
        smoothing: float = 0.0,
        temperature: float = 1.0,
        characters: bool = False,
    ) -> None:
        super().__init__(
            "one",
            "relation",
            weights=weights,
            focal=focal,
            smoothing=smoothing,
            temperature=temperature,
            characters=characters,
        )

    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """The official F1 of SemEval-2010 task 8, accuracy, and calibration."""
        said = [one.output for one in predictions]
        right = [one[0] for one in examples.references]
        return {
            "f1": directed_f1(said, right),
            "accuracy": accuracy(said, right),
            "ece": confidence(predictions, right),
        }
