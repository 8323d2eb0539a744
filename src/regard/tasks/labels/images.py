"""Pictures: one label, several labels or an ordered one for each picture, by a `Classifier`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor

from regard.data.images.scenes import scene_of
from regard.datasets import section
from regard.errors import RequestError
from regard.fields import Field, ImageField
from regard.losses.reinforce import reinforced
from regard.metrics import Score
from regard.protocols import Output
from regard.tasks.labels.base import Labeling
from regard.tasks.labels.classification import label_kind_scores
from regard.tasks.prediction import Prediction

__all__ = ["Images"]


class Images(Labeling):
    """The class of a picture.

    A model that samples where it looks learns by REINFORCE beside its own loss, where one label is
    predicted; see `losses.reinforce`. A model whose parts answer too (`Output.extra["auxiliary"]`)
    learns from each of their answers.

    Args:
        labels: see `Classification`.
        size, channels, fit, normalize: how pictures are read; see `ImageField`.
        scene: what each picture is laid in, as `{name: cluttered, size: 60, clutter: 4, seed: 1,
            copies: 5}`; see `data.images.scenes`. A training picture is in as many scenes as
            there are copies, another picture in one.
        reinforce: what the policy's part counts in the loss.
        weights, focal, smoothing, threshold, temperature: see `Labeling`.
    """

    name: ClassVar[str] = "images"
    metric: ClassVar[str] = "accuracy"
    viewed: ClassVar[str] = "labels.image_view"
    texts: ClassVar[tuple[str, ...]] = ("image",)
    reads_files: ClassVar[bool] = True
    most: ClassVar[int | None] = 32  # features of more pictures would need more memory
    lower_is_better: ClassVar[frozenset[str]] = Labeling.lower_is_better | {"ece", "mse"}

    def __init__(
        self,
        labels: str = "one",
        *,
        size: int | list[int] = 64,
        channels: int = 3,
        fit: str = "crop",
        normalize: bool = True,
        scene: dict[str, Any] | None = None,
        reinforce: float = 1.0,
        weights: str = "",
        focal: float = 0.0,
        smoothing: float = 0.0,
        threshold: float = 0.5,
        temperature: float = 1.0,
    ) -> None:
        super().__init__(
            labels,
            "label",
            weights=weights,
            focal=focal,
            smoothing=smoothing,
            threshold=threshold,
            temperature=temperature,
        )
        if labels == "grade":
            raise RequestError("task.labels: pictures have one label, several or an ordinal one")
        self.labels, self.reinforce, self.scene = labels, reinforce, scene_of(scene or {})
        self.image = ImageField(size, channels, fit=fit, normalize=normalize, scene=self.scene)

    # -- data

    @property
    def data_types(self) -> Mapping[str, Any]:
        """Of each key of `data:` its type: there are no word vectors."""
        return section.types(self.fields())

    def fields(self) -> dict[str, Field]:
        """The picture, and what is learned."""
        return {"image": self.image, "label": self.objective.field()}

    def examples(
        self, values: Mapping[str, Any], *, training: bool
    ) -> Iterable[tuple[Mapping[str, Any], list[str]]]:
        """One for each scene of a picture."""
        ((whole, right),) = super().examples(values, training=training)
        if self.scene is None:
            return [(whole, right)]
        count = self.scene.copies if training else 1
        picture = values["image"]
        return [({**whole, "image": replace(picture, scene=i)}, right) for i in range(count)]

    # -- learning

    def _added(
        self, output: Output, target: Tensor, weight: Tensor | None, count: int
    ) -> Tensor | float:
        """The penalty, the losses of further answers, and what REINFORCE adds."""
        total = super()._added(output, target, weight, count)
        if "auxiliary" in output.extra:  # (B, M, classes)
            for each in output.extra["auxiliary"].float().unbind(1):
                total = total + self.objective.loss(each, target, weight)
        if target.dim() == 1 and self.labels == "one":
            right = output.logits.float().argmax(-1) == target
            more = reinforced(output.extra, right, self.reinforce)
            if more is not None:
                total = total + (more * (target >= 0)).sum()
        return total

    # -- scoring

    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """As `Classification` does."""
        return label_kind_scores(self.labels, predictions, [one[0] for one in examples.references])
