"""Tagging: a tag for each word of a text: roles of a predicate, names, aspect terms."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.annotations.tag_schemes import scheme_of
from regard.data.batch import plan
from regard.data.dataset import Column, Dataset
from regard.data.formats import write_back
from regard.data.ragged import RaggedIds
from regard.datasets.rows import Rows
from regard.errors import RequestError, nearest
from regard.fields import (
    Field,
    MarksField,
    OpinionTagsField,
    PredicatesField,
    TagsField,
    TextField,
    WordFeatureField,
)
from regard.fields.tags import IGNORED, TagColumn
from regard.fields.word_features import WordColumn
from regard.layers.crf import Chain
from regard.losses.tags import chain_of, likelihood_loss, tag_loss
from regard.metrics import Score, accuracy
from regard.metrics.calibration import expected_calibration_error
from regard.protocols import Inputs, Output
from regard.system.devices import device_of
from regard.tasks.base import Task
from regard.tasks.ensembles import TagVote
from regard.tasks.inputs import Asked
from regard.tasks.objectives import balanced
from regard.tasks.prediction import Prediction
from regard.tasks.starting_vectors import FromVectors
from regard.tasks.tags.decoding import CONSTRAINTS, decode_tags
from regard.tasks.tags.entities import TagsPrediction
from regard.tasks.tags.propositions import Propositions
from regard.tasks.tags.scorers import SCORERS
from regard.tasks.windows import TagsInWindows

__all__ = ["Tagging"]

WEIGHTS = ("", "balanced")
AUXILIARY: Mapping[str, Callable[[str], TagsField]] = {
    "column": lambda scheme: TagsField("text", scheme),
    "opinions": lambda scheme: OpinionTagsField("text"),
}
"""Second tags by name, from the scheme of the first."""
TRIED = tuple(x / 4 for x in range(-16, 17))
"""What `outside` is chosen from."""
TEMPERATURES = tuple(2 ** (x / 8) for x in range(-16, 25))


class Tagging(FromVectors):
    """A tag for each word, by a `Tagger`.

    Args:
        scheme: of the tags in the data, one of `annotations.tag_schemes`; "": tags of any form,
            each word for itself, as parts of speech.
        learned_as: the scheme that the model learns, where it is another one.
        scorer: a key of `tasks.tags.scorers.SCORERS`; "": `spans` where tags have a scheme, else
            `words`.
        marks: each example has marked words, in the column `predicate`: their numbers from 0. Where
            a text is used without them, they are found; see `tasks.tags.propositions`.
        features: further columns with one value for each word, that the model reads.
        auxiliary: second tags that are learned beside the first; only the first are scored.
            `column`: those of the column `auxiliary`; `opinions`: words of opinion, from a list.
        characters: models read the characters of every word, as they are written.
        constraints: see `tasks.tags.decoding.CONSTRAINTS`; `scheme` and `roles` allow
            only valid tags.
        weights: `balanced`: in training each tag counts as if all were equally frequent.
        smoothing: mass of the target that is spread over the other tags; not for chains.
        outside: what the score of tag O is raised by when tags are chosen.
        tune_outside: `outside` is chosen on dev after training, for the greatest F1.
        temperature: scores are divided by it before they are probabilities; fitted on dev after
            training, and kept in the model folder.
        window: a text of more words is read in windows of this size, that overlap by half; each
            word has its scores from the window around it. 0: texts are read whole.
    """

    name: ClassVar[str] = "tagging"
    metric: ClassVar[str] = "f1"
    viewed: ClassVar[str] = "tags.view"
    lower_is_better: ClassVar[frozenset[str]] = Task.lower_is_better | {"ece"}
    max_length: ClassVar[int] = 20_000
    texts: ClassVar[tuple[str, ...]] = ("text",)

    def __init__(
        self,
        scheme: str = "bio",
        *,
        learned_as: str = "",
        scorer: str = "",
        marks: bool = False,
        features: Sequence[str] = (),
        auxiliary: str = "",
        characters: bool = False,
        constraints: str = "",
        weights: str = "",
        smoothing: float = 0.0,
        outside: float = 0.0,
        tune_outside: bool = False,
        temperature: float = 1.0,
        window: int = 0,
    ) -> None:
        if scheme:
            scheme_of(scheme)
        elif constraints or learned_as or tune_outside:
            given = next(
                name
                for name, own in (
                    ("constraints", constraints),
                    ("learned_as", learned_as),
                    ("tune_outside", tune_outside),
                )
                if own
            )
            raise RequestError(f"task.{given}: it is of tags with a scheme, and task.scheme is ''")
        chosen = scorer or ("spans" if scheme else "words")
        for name, value, known in (
            ("scorer", chosen, SCORERS),
            ("constraints", constraints, CONSTRAINTS),
            ("weights", weights, WEIGHTS),
            ("auxiliary", auxiliary, ("", *AUXILIARY)),
        ):
            if value not in known:
                raise RequestError(f"task.{name}: {value!r}: {nearest(value, known)}")
        if not temperature > 0:
            raise RequestError(f"task.temperature is {temperature:g}; it must be above 0")
        if window < 0 or window == 1:
            raise RequestError(f"task.window is {window}; it must be 2 or more words, or 0: none")
        if constraints == "roles" and (learned_as or scheme) not in ("bio", "iob2"):
            raise RequestError("task.constraints: roles are tagged with scheme bio")
        self.scheme, self.learned_as, self.scorer = scheme, learned_as, chosen
        self.marks, self.features, self.auxiliary = marks, list(features), auxiliary
        self.characters, self.constraints, self.weights = characters, constraints, weights
        self.smoothing, self.outside, self.tune_outside = smoothing, outside, tune_outside
        self.temperature, self.window = temperature, window

    # -- data

    def fields(self) -> dict[str, Field]:
        """The words, what is known of them beside, and their tags."""
        found: dict[str, Field] = {
            "text": TextField(
                "words",
                200_000,
                lowercase=True,
                end=False,
                characters=self.characters,
                cased=self.characters,
            )
        }
        if self.marks:
            found["predicate"] = MarksField("text")
            found["predicates"] = PredicatesField("text", "predicate")
        found.update({name: WordFeatureField("text") for name in self.features})
        found["tags"] = TagsField("text", self.scheme, learned_as=self.learned_as)
        if self.auxiliary:
            found["auxiliary"] = AUXILIARY[self.auxiliary](self.scheme)
        return found

    def dataset(self, columns: Mapping[str, Column], rows: Rows) -> Dataset:
        """A table, with the line of each example, and weights where they are wanted."""
        tags = columns["tags"]
        assert isinstance(tags, TagColumn)
        if wrong := np.flatnonzero(columns["text"].sizes != tags.sizes).tolist():
            raise RequestError(
                f"{rows.file}:{rows.lines[wrong[0]]}: expected one word for each of the "
                f"{tags.sizes[wrong[0]]} tags, got {columns['text'].sizes[wrong[0]]}: a word has a "
                "character in it that divides words"
            )
        own = dict(columns)
        if self.weights:
            own["weight"] = _balanced(tags)
        return super().dataset(own, replace(rows, extras={**rows.extras, "line": rows.lines}))

    def model_arguments(self, fields: Mapping[str, Any]) -> dict[str, int]:
        """`vocab_size`, `num_tags`; of further columns `num_features` and `feature_columns`."""
        found = dict(fields["text"].arguments())
        found["num_tags"] = len(fields["tags"].names)
        if self.features:
            sizes = [fields[name].size for name in self.features]
            found.update(num_features=1 + sum(sizes), feature_columns=len(sizes))
        if self.auxiliary:
            found["num_auxiliary"] = len(fields["auxiliary"].names)
        return found

    def rows(self, fields: Mapping[str, Any]) -> dict[str, tuple[str, Sequence[str]]]:
        """Words, their characters, and tags."""
        named = {"num_tags": "tags"} | ({"num_auxiliary": "auxiliary"} if self.auxiliary else {})
        words = {n: ("text", names) for n, names in fields["text"].rows().items()}
        return {**words, **{n: (field, fields[field].names) for n, field in named.items()}}

    # -- learning

    def loss(self, model: nn.Module, batch: Any, step: int | None = None) -> tuple[Tensor, int]:
        """The sum of the losses of the words (of the sentences, in a chain), and how many words."""
        source, target = self._inputs(batch), batch["tags"].values
        output = self._reader(model)(source)
        chain, lengths = chain_of(output.extra), batch["tags"].lengths
        training = step is not None
        weights = batch["weight"].values if training and "weight" in batch else None
        smoothing = self.smoothing if training else 0.0
        total = tag_loss(output.logits, chain, target, lengths, weights, smoothing)
        if training and "auxiliary" in batch and "auxiliary" in output.extra:
            total = total + tag_loss(
                output.extra["auxiliary"], None, batch["auxiliary"].values, lengths
            )
        if training and "penalty" in output.extra:
            total = total + output.extra["penalty"] * batch.count
        return total, batch.count

    def _inputs(self, batch: Any) -> Inputs:
        """Words, with marks, characters and further columns as extras."""
        text: Inputs = batch["text"]
        extras = dict(text.extras)
        if self.marks:
            extras["marks"] = batch["predicate"].values
        if self.features:
            extras["features"] = torch.stack([batch[name].values for name in self.features], -1)
        return replace(text, extras=extras)

    def _reader(self, model: nn.Module) -> Any:
        return TagsInWindows(model, self.window) if self.window else model

    @torch.no_grad()
    def _scores(self, model: nn.Module, batch: Any) -> tuple[Tensor, Chain | None, Tensor]:
        """Emissions and chain, calibrated, and lengths, on the CPU."""
        source = self._inputs(batch.to(device_of(model)))
        output: Output = self._reader(model)(source)
        chain = chain_of(output.extra)
        if chain is not None:
            chain = Chain(*(one.float().cpu() / self.temperature for one in chain))
        assert source.lengths is not None
        return output.logits.float().cpu() / self.temperature, chain, source.lengths.cpu()

    def settled(
        self, model: Any, dev: Any, decoder: Any, fields: Mapping[str, Field], tokens: int
    ) -> dict[str, Any]:
        """The temperature of the greatest likelihood of dev's tags, and `outside` of its best F1.

        Where dev has no error, both stay as they are.
        """
        if dev is None or len(dev) < 2:
            return {}
        parts, targets = [], []
        for at in self.batches(dev, tokens):
            batch = dev.collate(at)
            parts.append((at, *self._scores(model, batch)))
            targets.append(batch["tags"].values)
        found: dict[str, Any] = {}
        names = dev.columns["tags"].names
        if self.tune_outside and "O" in names:
            found["outside"] = self._best_outside(parts, dev, names)
        losses = {t: likelihood_loss(parts, targets, t) for t in TEMPERATURES}
        best = min(losses, key=lambda t: losses[t])
        if TEMPERATURES[0] < best < TEMPERATURES[-1]:
            found["temperature"] = round(best * self.temperature, 4)
        return found

    def _best_outside(self, parts: Sequence[Any], dev: Any, names: Sequence[str]) -> float:
        """What O is raised by for the greatest F1; of several alike that nearest to 0."""
        place, field = list(names).index("O"), self._named(names)
        values = {}
        for raised in TRIED:
            said = [""] * len(dev)
            for at, logits, chain, lengths in parts:
                own = logits.clone()
                own[..., place] += raised
                for i, one in zip(at, self._decoded(own, chain, lengths, names), strict=True):
                    said[i] = field.decode(one.tags)
            predictions = [Prediction("", one) for one in said]
            values[raised] = self.score(predictions, dev)[self.metric].value
        best = max(values.values())
        return float(min((x for x in values if values[x] >= best - 1e-9), key=abs))

    def _named(self, names: Sequence[str]) -> TagsField:
        made = TagsField("text", self.scheme, learned_as=self.learned_as)
        made.names = list(names)
        return made

    def _decoded(
        self, logits: Tensor, chain: Chain | None, lengths: Tensor, names: Sequence[str]
    ) -> Any:
        scheme = self.learned_as or self.scheme
        return decode_tags(logits, chain, lengths, names, scheme, self.constraints)

    # -- predicting

    def asked(self, texts: Sequence[str], fields: Mapping[str, Field]) -> Asked:
        """As of every task; of a text without marks every predicate that is found is an example."""
        if not self.marks or self.features:
            return super().asked(texts, fields)
        every = Propositions.of(texts, fields["predicates"])
        given = super().asked(every.marked, fields)
        return replace(given, merged=partial(every.merged, scheme=self.scheme))

    def batches(self, dataset: Any, tokens: int) -> list[list[int]]:
        """Which examples are answered together; one longer than the budget is alone."""
        sizes = np.minimum(dataset.sizes, tokens) if self.window else dataset.sizes
        return plan(sizes, tokens=tokens, shuffle=False, rows=self.most)

    def together(self, models: Sequence[nn.Module], tasks: Sequence[Task]) -> nn.Module:
        """The mean of the distributions of several models."""
        return TagVote(models)

    def outputs(
        self,
        model: nn.Module,
        dataset: Any,
        indices: Sequence[int],
        decoder: Any,
        fields: Mapping[str, Field],
        **asked: Any,
    ) -> list[Prediction]:
        """The tags of each text, divided by blanks; token scores are log-confidences."""
        field = fields["tags"]
        assert isinstance(field, TagsField)
        logits, chain, lengths = self._scores(model, dataset.collate(indices))
        if self.outside and "O" in field.names:
            logits[..., field.names.index("O")] += self.outside
        made: list[Prediction] = []
        found = self._decoded(logits, chain, lengths, field.names)
        for i, one in zip(indices, found, strict=True):
            sure = np.log(np.maximum(one.confidences, 1e-30)).tolist()
            tags = field.decode(one.tags)
            made.append(
                TagsPrediction(
                    dataset.texts[i],
                    tags,
                    one.score,
                    tags.split(),
                    sure,
                    ids=one.tags,
                    scheme=self.scheme,
                )
            )
        return made

    def put_back(
        self,
        source: str,
        target: str,
        predictions: Sequence[Prediction],
        examples: Any,
        config: Mapping[str, Any],
    ) -> tuple[int, int]:
        """Write a data file again with predicted tags in place of its own."""
        tags: dict[int, str] = {}  # of the sentences of a line one after another
        for n, one in zip(examples.extras["line"], predictions, strict=True):
            if one.output:
                tags[n] = f"{tags[n]} {one.output}" if n in tags else one.output
        column = (config.get("columns") or {}).get("tags", "tags")
        return write_back(source, target, tags, column, config.get("format"))

    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """What `scorer` says; the share of right tags; how far confidences can be believed."""
        right = [one[0].split() for one in examples.references]
        said = [  # of a text that was refused, or is cut off, what is not there is wrong
            [*one.output.split(), *["O"] * len(tags)][: len(tags)]
            for one, tags in zip(predictions, right, strict=True)
        ]
        found = dict(SCORERS[self.scorer](said, right, self.scheme))
        flat, guessed = ([tag for own in side for tag in own] for side in (right, said))
        found["accuracy"] = accuracy(guessed, flat)
        sure = [x for one in predictions for x in np.exp(one.token_scores)]
        if len(sure) == len(flat):
            correct = [a == b for a, b in zip(guessed, flat, strict=True)]
            found["ece"] = expected_calibration_error(np.minimum(sure, 1.0), correct)
        return found


def _balanced(tags: TagColumn) -> WordColumn:
    """The weight of each word: that of its tag; 0 of a tag that training never had."""
    flat = np.where(tags.ids.flat == IGNORED, len(tags.names), tags.ids.flat)
    each = balanced(np.bincount(flat, minlength=len(tags.names) + 1)[:-1])
    values = np.array([0.0, *each, 0.0], np.float32)  # of padding, of tags, of unseen ones
    return WordColumn(RaggedIds.of(flat.astype(np.int32) + 1, tags.sizes), values)
