"""What tasks have in common that label texts or pairs of texts, by one pass of a model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batch import plan
from regard.data.dataset import Column, Table
from regard.datasets.data import Data
from regard.datasets.rows import Rows
from regard.errors import RequestError, nearest
from regard.fields import FeaturesField, Field, TextField
from regard.fields.columns import ArrayColumn
from regard.metrics import Score, accuracy, macro_f1
from regard.metrics.calibration import expected_calibration_error, fit_temperature
from regard.protocols import Counting, Inputs, Output
from regard.system.devices import device_of
from regard.tasks.base import Task
from regard.tasks.ensembles import OfTexts, Vote
from regard.tasks.objectives import OBJECTIVES, Objective, balanced
from regard.tasks.prediction import Prediction
from regard.tasks.starting_vectors import FromVectors, parts_of
from regard.tasks.windows import InWindows

__all__ = ["Labeling", "confidence", "label_scores"]

WEIGHTS = ("", "balanced")
COUNTED = 65_536
"""Tokens that are counted at once."""


def confidence(predictions: Sequence[Prediction], right: Sequence[str]) -> Score:
    """The calibration error of predictions whose scores are log-probabilities."""
    confidences = [one.probability for one in predictions]
    correct = [one.output == label for one, label in zip(predictions, right, strict=True)]
    return expected_calibration_error(confidences, correct)


def label_scores(predictions: Sequence[Prediction], right: Sequence[str]) -> dict[str, Score]:
    """Accuracy, macro-F1 and calibration, where each example has one label."""
    said = [one.output for one in predictions]
    return {
        "accuracy": accuracy(said, right),
        "macro_f1": macro_f1(said, right),
        "ece": confidence(predictions, right),
    }


class Labeling(FromVectors):
    """Labels, grades or ranks of texts, by a `Classifier` or a `PairClassifier`.

    Args:
        objective: a key of `tasks.objectives.OBJECTIVES`.
        target: the field that is learned.
        weights: `balanced`: in training each class counts as if all were equally frequent.
        focal: gamma of the focal loss; 0: none.
        smoothing: mass of the target that is spread over all classes.
        threshold: from which probability on a label is there.
        temperature: logits are divided by it before they are probabilities; fitted on dev after
            training, and kept in the model folder.
        features: of a pair, kinds of `data.pairs.sentence_features`.
        sentences: how texts are cut into sentences, for models of documents.
        characters: models read the characters of every word too.
        window: a text of more words is read in windows of this many, that overlap by half: its loss
            is the mean of their losses, its answer comes from the mean of their probabilities, of
            which the temperature is fitted. For tasks with one text; 0: none.
    """

    text_field: ClassVar[type[TextField]] = TextField
    """What reads each text."""
    viewed: ClassVar[str] = "labels.view"
    storable: ClassVar[bool] = True
    max_length: ClassVar[int] = 20_000

    def __init__(
        self,
        objective: str,
        target: str,
        *,
        weights: str = "",
        focal: float = 0.0,
        smoothing: float = 0.0,
        threshold: float = 0.5,
        temperature: float = 1.0,
        features: Sequence[str] = (),
        sentences: str = "",
        characters: bool = False,
        window: int = 0,
    ) -> None:
        if objective not in OBJECTIVES:
            raise RequestError(
                f"task.labels: there is no {objective!r}: {nearest(objective, OBJECTIVES)}"
            )
        if weights not in WEIGHTS:
            raise RequestError(f"task.weights: {weights!r}: {nearest(weights, WEIGHTS)}")
        if weights and objective not in ("one", "ordinal"):
            raise RequestError(
                f"task.weights: they are of classes, and this task learns {objective}"
            )
        if not temperature > 0:
            raise RequestError(f"task.temperature is {temperature:g}; it must be above 0")
        if not 0 < threshold < 1:
            raise RequestError(f"task.threshold is {threshold:g}; it must be between 0 and 1")
        if window < 0:
            raise RequestError(f"task.window is {window}; it must be 0 or more words")
        if window and sentences:
            raise RequestError(
                "task.window: texts that are cut into sentences (task.sentences) are read whole; "
                "leave out one of the two"
            )
        if window and len(self.texts) > 1:
            raise RequestError(f"task.window: {self.name} reads pairs, and windows are of one text")
        if weights:
            self.together_why = f"task.weights: {weights} counts the labels of all rows"
        self.window = window
        self.target, self.weights, self.temperature = target, weights, temperature
        self.features, self.sentences, self.characters = list(features), sentences, characters
        self.objective: Objective = OBJECTIVES[objective](
            focal=focal, smoothing=smoothing, threshold=threshold
        )

    # -- data

    def fields(self) -> dict[str, Field]:
        """The texts with one vocabulary, their features, and what is learned."""
        found: dict[str, Field] = {
            name: self.text_field(
                "wordpunct",
                200_000,
                lowercase=True,
                end=False,
                sentences=self.sentences,
                characters=self.characters,
            )
            for name in self.texts
        }
        if self.features:
            first, second = self.texts
            found["features"] = FeaturesField(self.features, (first, second))
        return {**found, self.target: self.objective.field()}

    def dataset(self, columns: Mapping[str, Column], rows: Rows) -> Table:
        """A table; where classes are balanced, with the weight of each example."""
        made = super().dataset(columns, rows)
        assert isinstance(made, Table)
        if self.weights:
            labels = made.columns[self.target]
            assert isinstance(labels, ArrayColumn)
            made.columns["weight"] = ArrayColumn(_balanced(labels.values))
        return made

    # -- learning

    @torch.no_grad()
    def prepare(self, model: nn.Module, data: Data) -> None:
        """As `FromVectors`, and let a model count in the training texts.

        Raises:
            RequestError: it counts, and these cannot be read before training.
        """
        super().prepare(model, data)
        for part in parts_of(model):
            if isinstance(part, Counting):
                part.count(self._read(data.train))

    def _read(self, train: Any) -> Iterator[tuple[list[Inputs], Tensor]]:
        if not hasattr(train, "collate"):
            raise RequestError(
                "model.weighting reads all training texts first; leave out it or data.stream"
            )
        for at in self.batches(train, COUNTED):
            batch = train.collate(at)
            yield self.inputs(batch), batch[self.target]

    def loss(self, model: nn.Module, batch: Any, step: int | None = None) -> tuple[Tensor, int]:
        """The sum of the losses of the examples, and how many there are.

        What the model adds to its loss (`Output.extra["penalty"]`, a mean) is in it in training.
        """
        inputs, target = self.inputs(batch), batch[self.target]
        weight = batch["weight"] if step is not None and "weight" in batch else None
        if self.window and inputs[0].values.shape[1] > self.window:
            output, owners = self._windowed(model).each(inputs[0])
            share = 1 / owners.bincount(minlength=len(target))
            weight = (share if weight is None else share * weight)[owners]
            target = target[owners]
        else:
            output = model(*inputs)
        total = self.objective.loss(output.logits.float(), target, weight)
        if step is not None:
            total = total + self._added(output, target, weight, batch.count)
        return total, batch.count

    def _added(
        self, output: Output, target: Tensor, weight: Tensor | None, count: int
    ) -> Tensor | float:
        """What only training wants beside the loss: the model's penalty."""
        return output.extra["penalty"] * count if "penalty" in output.extra else 0.0

    def inputs(self, batch: Any) -> list[Inputs]:
        """What the model reads; features are extras of its first text."""
        first, *others = (batch[name] for name in self.texts)
        if "features" in batch:
            first = replace(first, extras={**first.extras, "features": batch["features"]})
        return [first, *others]

    def settled(
        self, model: Any, dev: Any, decoder: Any, fields: Mapping[str, Field], tokens: int
    ) -> dict[str, Any]:
        """The temperature that makes the likelihood of dev greatest.

        Where dev has no error nothing is known of how sure the model may be: it stays as it is.
        """
        if dev is None or not self.objective.calibrated or len(dev) < 2:
            return {}
        parts = [
            (self._logits(model, dev.collate(at)).numpy(), dev.columns[self.target].values[at])
            for at in self.batches(dev, tokens)
        ]
        logits, labels = (np.concatenate(side) for side in zip(*parts, strict=True))
        known = labels >= 0
        if (logits[known].argmax(1) == labels[known]).all():
            return {}
        return {"temperature": round(fit_temperature(logits, labels), 4)}

    @torch.no_grad()
    def _logits(self, model: nn.Module, batch: Any, texts: Sequence[str] = ()) -> Tensor:
        inputs = self.inputs(batch.to(device_of(model)))
        read: Any = self._windowed(model) if self.window and not isinstance(model, Vote) else model
        asked = {"texts": texts} if isinstance(model, Vote) else {}
        logits: Tensor = read(*inputs, **asked).logits
        return logits.double().cpu()

    def _windowed(self, model: nn.Module) -> InWindows:
        return InWindows(model, self.window, self.objective.probabilities, self.objective.logits)

    # -- predicting

    def batches(self, dataset: Any, tokens: int) -> list[list[int]]:
        """Which examples are answered together; one longer than the budget is alone."""
        sizes = np.minimum(dataset.sizes, tokens) if self.window else dataset.sizes
        return plan(sizes, tokens=tokens, shuffle=False, rows=self.most)

    def together(self, models: Sequence[nn.Module], tasks: Sequence[Task]) -> nn.Module:
        """The mean of the calibrated probabilities of several models."""
        each = [
            (
                own._windowed(one) if own.window and not isinstance(one, OfTexts) else one,
                own.temperature,
            )
            for one, own in zip(models, tasks, strict=True)
            if isinstance(own, Labeling)
        ]
        readers, of = zip(*each, strict=True)
        return Vote(readers, of, self.objective.probabilities, self.objective.logits)

    def of_texts(self, model: nn.Module, fields: Mapping[str, Field]) -> nn.Module:
        """A model that reads texts as they were written, for `together`."""
        return OfTexts(model, partial(self._logits_of, fields))

    def _logits_of(
        self, fields: Mapping[str, Field], model: nn.Module, texts: Sequence[str]
    ) -> Tensor:
        given = self.asked(texts, fields)
        if len(given.places) < len(texts):
            at = next(i for i in range(len(texts)) if i not in given.places)
            why = given.refused[at].refused or "it is empty"
            raise RequestError(f"a model of the ensemble cannot read {texts[at][:60]!r}: {why}")
        return self._logits(model, given.dataset.collate(range(len(texts))))

    def outputs(
        self,
        model: nn.Module,
        dataset: Any,
        indices: Sequence[int],
        decoder: Any,
        fields: Mapping[str, Field],
        **asked: Any,
    ) -> list[Prediction]:
        """The answer for each example; scores are logarithms of calibrated probabilities."""
        texts = [dataset.texts[i] for i in indices]
        logits = self._logits(model, dataset.collate(indices), texts) / self.temperature
        each = self.objective.probabilities(logits).tolist()
        return [
            self.objective.answer(dataset.texts[i], one, fields[self.target])
            for i, one in zip(indices, each, strict=True)
        ]


def _balanced(labels: np.ndarray) -> np.ndarray:
    """The weight of each example: that of its class; 0 for an unseen label."""
    weights = balanced(np.bincount(labels[labels >= 0]))
    found = np.where(labels >= 0, weights[np.maximum(labels, 0)], 0.0)
    return found.astype(np.float32)
