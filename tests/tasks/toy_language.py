"""Language identification: the language of a text. All that a new task of the house takes."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.fields import Field, LabelField, TextField
from regard.metrics import Score, accuracy
from regard.system.devices import device_of
from regard.tasks import Prediction, Task

__all__ = ["LanguageIdentification"]


class LanguageIdentification(Task):
    """The language of a text, by a `Classifier`."""

    name: ClassVar[str] = "language-identification"
    metric: ClassVar[str] = "accuracy"

    def fields(self) -> dict[str, Field]:
        """A text in letters, and its language."""
        return {"text": TextField("characters", 300), "language": LabelField()}

    def loss(self, model: nn.Module, batch: Any, step: int | None = None) -> tuple[Tensor, int]:
        """Cross-entropy, summed over the texts."""
        output = model(batch["text"])
        total = F.cross_entropy(
            output.logits.float(), batch["language"], ignore_index=-1, reduction="sum"
        )
        penalty = output.extra.get("penalty", 0.0) if step is not None else 0.0
        return total + penalty * batch.count, batch.count

    def outputs(
        self, model: nn.Module, dataset: Any, indices: Sequence[int], decoder: Any,
        fields: Mapping[str, Field], **asked: Any,
    ) -> list[Prediction]:  # fmt: skip
        """The likeliest language of each text, with its log-probability."""
        batch = dataset.collate(indices).to(device_of(model))
        best = torch.log_softmax(model(batch["text"]).logits.float(), -1).max(-1)
        return [
            Prediction(dataset.texts[i], fields["language"].decode(label), score)
            for i, label, score in zip(
                indices, best.indices.tolist(), best.values.tolist(), strict=True
            )
        ]

    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """Accuracy."""
        right = [one[0] for one in examples.references]
        return {"accuracy": accuracy([one.output for one in predictions], right)}
