"""Classification: one label, several labels or an ordered one for each text, by a `Classifier`."""

from collections.abc import Sequence
from typing import Any, ClassVar

from regard.fields.label import labels_in
from regard.metrics import (
    Score,
    accuracy,
    mean_squared_error,
    micro_f1,
    spearman,
)
from regard.tasks.labels.base import Labeling, label_scores
from regard.tasks.prediction import Prediction

__all__ = ["Classification", "label_kind_scores"]


class Classification(Labeling):
    """The class of a text.

    Args:
        labels: `one` of several classes; `several` at once, separated by commas in the data; or
            `ordinal`, classes that are numbers and have an order.
        settings: see `Labeling`.
    """

    name: ClassVar[str] = "classification"
    metric: ClassVar[str] = "accuracy"
    lower_is_better: ClassVar[frozenset[str]] = Labeling.lower_is_better | {"ece", "mse"}

    def __init__(
        self,
        labels: str = "one",
        *,
        weights: str = "",
        focal: float = 0.0,
        smoothing: float = 0.0,
        threshold: float = 0.5,
        temperature: float = 1.0,
        sentences: str = "",
        characters: bool = False,
        window: int = 0,
    ) -> None:
        super().__init__(
            labels,
            "label",
            weights=weights,
            focal=focal,
            smoothing=smoothing,
            threshold=threshold,
            temperature=temperature,
            sentences=sentences,
            characters=characters,
            window=window,
        )
        self.labels = labels

    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """What is usual for the labels.

        Accuracy; of one label macro-F1 and calibration, of several micro-F1, of ordered ones the
        mean squared error and the rank correlation.
        """
        return label_kind_scores(self.labels, predictions, [one[0] for one in examples.references])


def label_kind_scores(
    labels: str, predictions: Sequence[Prediction], right: Sequence[str]
) -> dict[str, Score]:
    """The scores that are usual for labels of a kind: `one`, `several` or `ordinal`."""
    said = [one.output for one in predictions]
    if labels == "one":
        return label_scores(predictions, right)
    found = {"accuracy": accuracy(said, right)}
    if labels == "several":
        return {**found, "micro_f1": micro_f1(*([labels_in(t) for t in s] for s in (said, right)))}
    outputs, references = ([_number(t) for t in side] for side in (said, right))
    mse = mean_squared_error(outputs, references)
    return {**found, "mse": mse, "spearman": spearman(outputs, references)}


def _number(text: str) -> float:
    return float(text or "nan")
