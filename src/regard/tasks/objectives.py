r"""What is predicted of an example: one label, several, a grade; each with its loss and its answer.

- `one`: a softmax over the classes; cross-entropy, with class weights, label smoothing or the focal
  factor :math:`(1 - p)^\gamma` (Lin et al. 2017, "Focal Loss for Dense Object Detection").
- `several`: a sigmoid for each label; binary cross-entropy.
- `ordinal`: labels in an order; a sigmoid for each border between two of them,
  :math:`p(y > k)` (Frank and Hall 2001; Cheng, Wang and Pollastri 2008).
- `grade`: a number; the target is the distribution over the whole grades with that mean, of which
  the two nearest have all mass, the loss the Kullback-Leibler divergence from it, the answer
  :math:`\sum_k k\, p_k` (Tai et al. 2015; He et al. 2015).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from regard.fields import Field, GradeField, LabelField, LabelsField, OrdinalField
from regard.runtime.labels import LEAST, MOST, ranked_labels
from regard.tasks.prediction import Prediction

__all__ = [
    "OBJECTIVES",
    "Grade",
    "Objective",
    "OneLabel",
    "Ordinal",
    "SeveralLabels",
    "balanced",
]


def balanced(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The weight of an example of each class, with which all classes count alike.

    It is N / (classes that occur * how often this one does).

    Example:
        >>> balanced(np.array([3, 1, 0])).round(2).tolist()
        [0.67, 2.0, 2.0]
    """
    found: NDArray[np.float64]
    found = counts.sum() / (max((counts > 0).sum(), 1) * np.maximum(counts, 1))
    return found


@dataclass(frozen=True)
class Objective(ABC):
    """A way to learn and to answer.

    Args:
        focal: gamma.
        smoothing: mass of the target that is spread over all classes.
        threshold: a label (a border) is there from this probability on.
    """

    focal: float = 0.0
    smoothing: float = 0.0
    threshold: float = 0.5
    calibrated: ClassVar[bool] = False
    """Whether a temperature is fitted on dev."""

    @abstractmethod
    def field(self) -> Field:
        """The column of the target."""

    def loss(
        self,
        logits: Float[Tensor, "batch classes"],
        target: Tensor,
        weight: Float[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, ""]:
        """The sum of the losses; -1 is a label that training never had, and counts nothing."""
        each = self.losses(logits, target)
        return (each if weight is None else each * weight.to(each.dtype)).sum()

    @abstractmethod
    def losses(
        self, logits: Float[Tensor, "batch classes"], target: Tensor
    ) -> Float[Tensor, " batch"]:
        """The loss of each example."""

    def probabilities(self, logits: Float[Tensor, "batch classes"]) -> Tensor:
        """Of each class: (B, num_classes)."""
        return logits.softmax(-1)

    def logits(self, probabilities: Float[Tensor, "batch classes"]) -> Tensor:
        """Logits that have these probabilities."""
        return probabilities.clamp_min(LEAST).log()

    @abstractmethod
    def answer(self, text: str, probabilities: Sequence[float], field: Any) -> Prediction:
        """The prediction for one example."""


@dataclass(frozen=True)
class OneLabel(Objective):
    """One of several classes."""

    calibrated: ClassVar[bool] = True

    def field(self) -> LabelField:
        """A label."""
        return LabelField()

    def losses(
        self, logits: Float[Tensor, "batch classes"], target: Tensor
    ) -> Float[Tensor, " batch"]:
        """Cross-entropy."""
        each = F.cross_entropy(
            logits, target, ignore_index=-1, reduction="none", label_smoothing=self.smoothing
        )
        if not self.focal:
            return each
        right = logits.softmax(-1).gather(1, target.clamp(min=0)[:, None])[:, 0]
        return each * (1 - right) ** self.focal

    def answer(self, text: str, probabilities: Sequence[float], field: Any) -> Prediction:
        """The likeliest label; the others are the alternatives."""
        first, *rest = (Prediction(text, *one) for one in ranked_labels(probabilities, field.names))
        first.alternatives.extend(rest)
        return first


@dataclass(frozen=True)
class SeveralLabels(Objective):
    """Any number of labels."""

    def field(self) -> LabelsField:
        """Labels of a cell."""
        return LabelsField()

    def losses(
        self, logits: Float[Tensor, "batch classes"], target: Tensor
    ) -> Float[Tensor, " batch"]:
        """Binary cross-entropy, summed over the labels."""
        each = F.binary_cross_entropy_with_logits(logits, target.to(logits), reduction="none")
        if self.focal:
            right = torch.where(target > 0.5, logits, -logits).sigmoid()
            each = each * (1 - right) ** self.focal
        return each.sum(-1)

    def probabilities(self, logits: Float[Tensor, "batch classes"]) -> Tensor:
        """Of each label by itself."""
        return logits.sigmoid()

    def logits(self, probabilities: Float[Tensor, "batch classes"]) -> Tensor:
        """The inverse of the sigmoid."""
        return torch.logit(probabilities, 1e-12)

    def answer(self, text: str, probabilities: Sequence[float], field: Any) -> Prediction:
        """All labels from the threshold on; the likeliest labels are the alternatives."""
        chosen = [i for i, p in enumerate(probabilities) if p >= self.threshold]
        each = (p if p >= self.threshold else 1 - p for p in probabilities)
        score = sum(math.log(max(p, LEAST)) for p in each)
        order = sorted(range(len(probabilities)), key=lambda i: -probabilities[i])[:MOST]
        others = [_named(text, field.names[i], probabilities[i]) for i in order]
        return Prediction(text, field.decode(chosen), score, alternatives=others)


@dataclass(frozen=True)
class Ordinal(Objective):
    """One of several classes in an order."""

    def field(self) -> OrdinalField:
        """A label that is a number."""
        return OrdinalField()

    def losses(
        self, logits: Float[Tensor, "batch classes"], target: Tensor
    ) -> Float[Tensor, " batch"]:
        """Binary cross-entropy, the mean over the borders."""
        above = target[:, None] > torch.arange(logits.shape[1], device=logits.device)
        each = F.binary_cross_entropy_with_logits(logits, above.to(logits), reduction="none")
        return each.mean(-1) * (target >= 0)

    def probabilities(self, logits: Float[Tensor, "batch classes"]) -> Tensor:
        """That the label is above each border."""
        return logits.sigmoid()

    logits = SeveralLabels.logits

    def answer(self, text: str, probabilities: Sequence[float], field: Any) -> Prediction:
        """The class above as many borders as are likely."""
        level = sum(p >= self.threshold for p in probabilities)
        # p(y > k) may rise with k, as nothing makes the borders agree: no class is below nothing.
        above = [1.0, *probabilities, 0.0]
        each = [max(a - b, 0.0) for a, b in pairwise(above)]
        total = sum(each) or 1.0
        others = [_named(text, field.names[i], p / total) for i, p in enumerate(each) if i != level]
        made = _named(text, field.names[level], each[level] / total)
        made.alternatives.extend(sorted(others, key=lambda one: -(one.score or 0.0))[:MOST])
        return made


@dataclass(frozen=True)
class Grade(Objective):
    """A number between the lowest and the highest grade of training."""

    def field(self) -> GradeField:
        """A number."""
        return GradeField()

    def losses(
        self, logits: Float[Tensor, "batch classes"], target: Tensor
    ) -> Float[Tensor, " batch"]:
        """KL(target || model)."""
        return F.kl_div(logits.log_softmax(-1), target.to(logits), reduction="none").sum(-1)

    def answer(self, text: str, probabilities: Sequence[float], field: Any) -> Prediction:
        """The mean of the grades."""
        pairs = list(zip(field.grades, probabilities, strict=True))
        mean = sum(grade * p for grade, p in pairs)
        others = [_named(text, str(grade), p) for grade, p in pairs]
        return Prediction(text, f"{mean:.4f}", mean, alternatives=others)


OBJECTIVES: Mapping[str, type[Objective]] = {
    "one": OneLabel,
    "several": SeveralLabels,
    "ordinal": Ordinal,
    "grade": Grade,
}
"""What a task may predict, by name."""


def _named(text: str, name: str, probability: float) -> Prediction:
    return Prediction(text, name, math.log(max(probability, LEAST)))
