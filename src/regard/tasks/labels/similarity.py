"""Similarity of two texts: a grade, whether they say the same, or which answers a question best."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from regard.errors import RequestError, nearest
from regard.fields import Field, KeyField
from regard.metrics import (
    Score,
    accuracy,
    f1_of,
    mean_average_precision,
    mean_reciprocal_rank,
    mean_squared_error,
    pearson,
    spearman,
)
from regard.tasks.labels.base import Labeling, confidence
from regard.tasks.prediction import Prediction

__all__ = ["Similarity"]

_TARGETS = {"grade": ("grade", "score"), "label": ("one", "label"), "rank": ("one", "label")}
"""Of each kind of target the objective and the field."""
_SCORES = {
    "grade": ("pearson", "spearman", "mse"),
    "label": ("accuracy", "f1", "ece"),
    "rank": ("map", "mrr"),
}
"""Of each kind of target the names of its scores, the one that training goes by first."""


class Similarity(Labeling):
    """How alike two texts are, by a `PairClassifier`.

    Args:
        target: `grade`: a number (`score`), learned as a distribution over the whole grades;
            `label`: whether the two are paraphrases; `rank`: whether the second answers the first,
            judged within a `group`, the first text where no column says another.
        positive: the label of a paraphrase or of a right answer.
        questions: which groups a rank is the mean over: `both`: those with right and wrong answers;
            `any`: those with a right one, as trec_eval.
        features: of the pair, that the model reads beside the words: kinds of
            `data.pairs.sentence_features`.
        settings: see `Labeling`.
    """

    name: ClassVar[str] = "similarity"
    metric: ClassVar[str] = "pearson"
    lower_is_better: ClassVar[frozenset[str]] = Labeling.lower_is_better | {"ece", "mse"}
    texts: ClassVar[tuple[str, ...]] = ("a", "b")

    def __init__(
        self,
        target: str = "grade",
        features: Sequence[str] = (),
        *,
        positive: str = "1",
        questions: str = "both",
        weights: str = "",
        focal: float = 0.0,
        smoothing: float = 0.0,
        temperature: float = 1.0,
        characters: bool = False,
    ) -> None:
        if target not in _TARGETS:
            raise RequestError(f"task.target: there is no {target!r}: {nearest(target, _TARGETS)}")
        objective, field = _TARGETS[target]
        super().__init__(
            objective,
            field,
            weights=weights,
            focal=focal,
            smoothing=smoothing,
            temperature=temperature,
            features=features,
            characters=characters,
        )
        self.kind, self.positive, self.questions = target, positive, questions
        self.metric = _SCORES[target][0]  # type: ignore[misc]

    def fields(self) -> dict[str, Field]:
        """Two texts and what is learned of them; for ranks the group of each pair."""
        found = super().fields()
        return {**found, "group": KeyField(of="a")} if self.kind == "rank" else found

    def check_fields(self, fields: Mapping[str, Field]) -> None:
        """See that there are pairs with the label `positive`.

        Raises:
            RequestError: training has none.
        """
        if self.kind != "grade":
            names = fields[self.target].names  # type: ignore[attr-defined]
            if self.positive not in names:
                raise RequestError(
                    f"task.positive: there is no label {self.positive!r} in the training data: "
                    f"{nearest(self.positive, names)}"
                )

    def scores(self, examples: Any) -> list[str]:
        """The names of its scores; those of ranks cannot be found on one example."""
        return list(_SCORES[self.kind])

    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """What is usual for the target.

        Of grades Pearson, Spearman and the mean squared error; of labels accuracy and F1; of ranks
        the mean average precision and the mean reciprocal rank.
        """
        said = [one.output for one in predictions]
        right = [one[0] for one in examples.references]
        if self.kind == "grade":
            outputs, grades = ([float(t or "nan") for t in side] for side in (said, right))
            return {
                "pearson": pearson(outputs, grades),
                "spearman": spearman(outputs, grades),
                "mse": mean_squared_error(outputs, grades),
            }
        if self.kind == "label":
            return {
                "accuracy": accuracy(said, right),
                "f1": f1_of(said, right, self.positive),
                "ece": confidence(predictions, right),
            }
        groups, relevant = examples.extras["group"], [label == self.positive for label in right]
        scores = [one.probability_of(self.positive) for one in predictions]
        return {
            "map": mean_average_precision(groups, scores, relevant, self.questions),
            "mrr": mean_reciprocal_rank(groups, scores, relevant, self.questions),
        }
