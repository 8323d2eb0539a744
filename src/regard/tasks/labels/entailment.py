"""Entailment: what a premise says of a hypothesis, by a `PairClassifier`."""

from collections.abc import Sequence
from typing import Any, ClassVar

from regard.metrics import Score
from regard.tasks.labels.base import Labeling, label_scores
from regard.tasks.prediction import Prediction

__all__ = ["Entailment"]


class Entailment(Labeling):
    """The label of a premise and a hypothesis.

    Args:
        features: of the pair, that the model reads beside the words: kinds of
            `data.pairs.sentence_features`.
        settings: see `Labeling`.
    """

    name: ClassVar[str] = "entailment"
    metric: ClassVar[str] = "accuracy"
    lower_is_better: ClassVar[frozenset[str]] = Labeling.lower_is_better | {"ece"}
    texts: ClassVar[tuple[str, ...]] = ("premise", "hypothesis")

    def __init__(
        self,
        features: Sequence[str] = (),
        *,
        weights: str = "",
        focal: float = 0.0,
        smoothing: float = 0.0,
        temperature: float = 1.0,
        characters: bool = False,
    ) -> None:
        super().__init__(
            "one",
            "label",
            weights=weights,
            focal=focal,
            smoothing=smoothing,
            temperature=temperature,
            features=features,
            characters=characters,
        )

    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """Accuracy, macro-F1 and calibration."""
        return label_scores(predictions, [one[0] for one in examples.references])
