"""What all tasks share whose model is a `Generator`: a sequence in, a sequence out."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batch import PairBatch, plan
from regard.data.ragged import RaggedIds
from regard.data.storage.store import StoredTexts
from regard.data.text.input_warnings import warn_too_long
from regard.data.text.tokenizer import Tokenizer
from regard.datasets import section
from regard.datasets.rows import Rows
from regard.decode.ensemble import Ensemble
from regard.decode.rules.forbidden_words import Rule
from regard.decode.search_batch import telling
from regard.errors import RequestError
from regard.fields import Bad, Field, TextField
from regard.fields.sets import as_fields, tokenizers_of
from regard.layers.deferred_logits import deferring
from regard.losses.copy_supervision import Pointing
from regard.losses.guided_alignment import Guided
from regard.losses.minimum_risk import Risk
from regard.losses.scheduled_sampling import Scheduled
from regard.losses.self_critical import Rewards, SelfCritical
from regard.losses.smoothed_cross_entropy import smoothed_cross_entropy, weights_whole
from regard.protocols import Inputs
from regard.settings.check import settings_of
from regard.settings.old_names import ASKED, deprecated, renamed
from regard.system.devices import device_of
from regard.tasks.base import Task
from regard.tasks.generation.options import Spelling, check_wishes, wishes
from regard.tasks.generation.pairs import PairDataset, as_source
from regard.tasks.generation.resegmentation import Recut, recut
from regard.tasks.inputs import Asked, telling_unknown
from regard.tasks.prediction import Prediction

__all__ = ["Generation"]

SIDES = ("source", "target")


class Generation(Task):
    """A task on a `Generator`.

    Args:
        smoothing: label smoothing ε of the training loss (see `losses.smoothed_cross_entropy`).
        max_source: inputs of more tokens than this, EOS counted, are refused by `predict`.
        guided, scheduled, risk, pointing, self_critical: settings of losses (see `regard.losses`).
            They change what training minimizes, and no other loss.
        bpe_dropout: probability that training skips a merge; see `resegmentation`.
    """

    columns: ClassVar[Mapping[str, str | int]] = {"source": "source", "target": "target"}
    viewed: ClassVar[str] = "generation.view"
    options: ClassVar[frozenset[str]] = frozenset({"prefix", "force_words", "bad_words"})
    storable: ClassVar[bool] = True
    tokenizer: ClassVar[dict[str, Any]] = {"kind": "bpe", "vocab_size": 8000}
    """Tokenizers where a recipe says nothing else: of both sides, or of `source` and `target`."""

    def __init__(
        self,
        smoothing: float = 0.0,
        max_source: int = 1024,
        guided: Mapping[str, Any] | None = None,
        scheduled: Mapping[str, Any] | None = None,
        risk: Mapping[str, Any] | None = None,
        pointing: Mapping[str, Any] | None = None,
        self_critical: Mapping[str, Any] | None = None,
        bpe_dropout: float = 0.0,
    ) -> None:
        if not 0.0 <= smoothing < 1.0:
            raise RequestError(f"task.smoothing is {smoothing}; it must be from 0 to below 1")
        if max_source < 1:
            raise RequestError(f"task.max_source is {max_source}; it must be 1 or more")
        if not 0.0 <= bpe_dropout <= 1.0:
            raise RequestError(f"task.bpe_dropout is {bpe_dropout}; it must be from 0 to 1")
        self.smoothing, self.max_source, self.bpe_dropout = smoothing, max_source, bpe_dropout
        self.guided = settings_of(Guided, guided, "guided")
        self.scheduled = settings_of(Scheduled, scheduled, "scheduled")
        self.risk = settings_of(Risk, risk, "risk")
        self.pointing = settings_of(Pointing, pointing, "pointing")
        self.self_critical = settings_of(SelfCritical, self_critical, "self_critical")
        if self.guided:
            self.together_why = "task.guided has an alignment for each row of one file"
        self._recut: Recut | None = None
        if guided and bpe_dropout:
            raise RequestError("task.guided has links between pieces; leave out task.bpe_dropout")
        self._rewards, self._names = Rewards(), torch.zeros(0, dtype=torch.bool)

    @abstractmethod
    def pairs(
        self, source: str, target: Any, *, training: bool
    ) -> tuple[list[tuple[str, Any]], list[str]]:
        """The pairs to learn from one row, and all its right outputs."""

    def rules(
        self, source: Any, tokenizers: Mapping[str, Tokenizer], decoder: Any
    ) -> Sequence[Rule]:
        """What outputs of these sources must keep to, whatever is asked; by default nothing."""
        return ()

    # -- data

    def fields(self) -> dict[str, Field]:
        """A text that is read and a text that is written."""
        return {side: TextField(target=side == "target", **self._cut(side)) for side in SIDES}

    def _cut(self, side: str) -> dict[str, Any]:
        """The settings of a side's tokenizer."""
        told = {**self.tokenizer, **self.tokenizer.get(side, {})}
        named = {"tokenizer": told["kind"], "lowercase": told.get("lowercase", False)}
        return {**named, **{k: told[k] for k in ("vocab_size",) if k in told}}

    def examples(
        self, values: Mapping[str, Any], *, training: bool
    ) -> Iterator[tuple[Mapping[str, Any], list[str]]]:
        """The pairs of a row."""
        learned, right = self.pairs(values["source"], values["target"], training=training)
        for source, target in learned:
            yield {"source": source, "target": target}, right

    def extend(
        self, rows: Mapping[str, Rows], config: section.Config, fields: Mapping[str, Field]
    ) -> None:
        """Read the alignments that guide attention, and find names, where they are wanted."""
        self._recut = Recut.of(self.bpe_dropout, tokenizers_of(fields), config.max_length)
        if self.pointing:
            self._names = self.pointing.names(tokenizers_of(fields)["target"].spelled())
        if self.guided and "train" in rows:
            train = rows["train"]
            first = 2 if config.has_header("train") else 1
            train.extras["links"] = self.guided.read(
                [line - first for line in train.lines],
                list(zip(train.values["source"], train.values["target"], strict=True)),
                tokenizers_of(fields),
            )

    def dataset(self, columns: Mapping[str, Any], rows: Rows) -> PairDataset:
        """Pairs of a source and ids."""
        source, target = as_source(columns["source"]), columns["target"].ids
        written = self.fields()["source"].written
        values = rows.values["source"]
        texts = values if isinstance(values, StoredTexts) else [written(value) for value in values]
        return PairDataset(source, target, texts, rows.references, rows.extras.get("links"))

    def model_arguments(self, fields: Mapping[str, Any]) -> dict[str, int]:
        """The sizes of both vocabularies; of a source that is no text, what its field says."""
        known = as_fields(fields, self.fields())
        texts = tokenizers_of(known)
        own = {} if "source" in texts else known["source"].arguments()
        return {**own, **{f"{s}_vocab_size": len(texts[s]) for s in SIDES if s in texts}}

    def rows(self, fields: Mapping[str, Field]) -> dict[str, tuple[str, Sequence[str]]]:
        """The tokens of both vocabularies."""
        texts = {n: f for n, f in fields.items() if isinstance(f, TextField) and n in SIDES}
        return {f"{n}_vocab_size": (n, f.rows()["vocab_size"]) for n, f in texts.items()}

    # -- learning

    def loss(
        self, model: nn.Module, batch: PairBatch, step: int | None = None
    ) -> tuple[Tensor, int]:
        """Teacher-forced cross-entropy: (its sum over the real target tokens, their number).

        In training (`step` is given) with what the model and the settings add to it.
        """
        if step is None:
            with deferring(weights_whole()):
                output = model(batch.source, batch.target_in, batch.source_lengths)
            return self._cross_entropy(model, output.logits, batch), batch.count
        count = batch.count
        if self.bpe_dropout:
            batch = recut(self._recut, batch)
        if self.scheduled:
            batch = self.scheduled.mixed(model, batch, step)
        watching = self.guided.watching(model) if self.guided else nullcontext()
        with watching as seen, deferring(weights_whole()):
            output = model(batch.source, batch.target_in, batch.source_lengths)
        total = self._cross_entropy(model, output.logits, batch)
        if "penalty" in output.extra:  # of one batch, as the paper adds it to a mean
            total = total + output.extra["penalty"] * batch.count
        if self.guided and seen is not None:
            total = total + self.guided.loss(seen, batch)
        if self.pointing:
            copying = output.extra.get("copying")
            total = total + self.pointing.of(batch.source, batch.target_out, copying, self._names)
        if self.self_critical and step >= self.self_critical.after:
            weight = self.self_critical.weight
            reinforced = self.self_critical.loss(model, batch, self._rewards)
            total = (1.0 - weight) * total + weight * reinforced
        if self.risk and step >= self.risk.after:
            weight = self.risk.weight
            total = (1.0 - weight) * total + weight * self.risk.loss(model, batch, step)
        # A mean over the tokens there are, as many as were counted before they were cut again.
        return (total * (count / batch.count) if self._recut else total), count

    def measured(self) -> Mapping[str, float]:
        """The mean rewards of self-critical training."""
        return self._rewards.means()

    def _cross_entropy(self, model: nn.Module, logits: Any, batch: PairBatch) -> Tensor:
        given = bool(getattr(model, "normalized", False))
        return smoothed_cross_entropy(logits, batch.target_out, self.smoothing, normalized=given)

    # -- predicting

    def asked(self, texts: Sequence[str], fields: Mapping[str, Field]) -> Asked:
        """Sources as their field encodes them; empty and too long ones are not decoded.

        An input that the field of the source cannot read says why in `refused`.
        """
        field, values, places = fields["source"], [], []
        refused = [Prediction(text, "") for text in texts]
        for place, text in enumerate(map(self.as_read, texts)):
            try:
                # An empty text is an input as any other, and has an empty output.
                values.append(text if isinstance(field, TextField) else field.read(text, {}))
            except Bad as bad:
                said = f"source is {bad}" if bad.what == "empty" else str(bad)
                refused[place] = Prediction(texts[place], "", refused=said)
            else:
                places.append(place)
        if not places:
            return Asked(None, places, refused)
        column = field.encode(values, lambda *_: None, fields, {"source": values})
        telling_unknown(column, values, field)
        nothing = RaggedIds.rows([[] for _ in values])
        kept = [texts[place] for place in places]
        made = self.whole(PairDataset(as_source(column), nothing, kept, [[] for _ in values]))
        for place, one in zip(places, made.refused, strict=True):
            refused[place] = one
        return Asked(made.dataset, places, refused)

    def as_read(self, text: str) -> str:
        """An input as its model reads it; by default as it is."""
        return text

    def whole(self, dataset: PairDataset) -> Asked:
        """All sources, with what stands for those that are empty or too long."""
        sizes = dataset.sizes[:, 0].tolist()
        undecoded = [self._undecoded(t, size) for t, size in zip(dataset.texts, sizes, strict=True)]
        refused = sum(bool(one.refused) for one in undecoded)
        warn_too_long(refused, len(sizes), self.max_source)
        return Asked(dataset, range(len(sizes)), undecoded)

    def batches(self, dataset: PairDataset, tokens: int) -> list[list[int]]:
        """By the length of sources alone; those that are too long are left out."""
        sizes = dataset.sizes[:, 0]
        decoded = np.flatnonzero(dataset.filled & (sizes <= self.max_source))
        found = plan(sizes[decoded, None], tokens=tokens, shuffle=False, rows=self.most)
        return [decoded[batch].tolist() for batch in found]

    def checked(
        self, asked: dict[str, Any], texts: Sequence[str], fields: Mapping[str, Field]
    ) -> dict[str, Any]:
        """`prefix`, `force_words` and `bad_words` of each text.

        `prefix` is what its output must begin with; the others are words or phrases that its output
        must and must not have, tokenized; `bad_words` holds for any tokenization of the output.
        """
        told = renamed(asked, ASKED, deprecated)
        check_wishes(len(texts), told, lambda number: self.spelling(texts[number], fields))
        return super().checked(told, texts, fields)

    def together(self, models: Sequence[nn.Module], tasks: Sequence[Task]) -> nn.Module:
        """The mean of the probabilities of the next token."""
        return Ensemble(models)  # type: ignore[arg-type]

    def outputs(
        self,
        model: nn.Module,
        dataset: PairDataset,
        indices: Sequence[int],
        decoder: Any,
        fields: Mapping[str, Field],
        **asked: Any,
    ) -> list[Prediction]:
        """The hypotheses of some sources."""
        batch, told = self._told(model, dataset, indices, decoder, fields, asked)
        early: dict[int, Prediction] = {}

        def made(row: int, found: list[Any]) -> Prediction:
            text = dataset.texts[indices[row]]
            early[row] = self.prediction(text, found, self.spelling(text, fields))
            return early[row]

        with telling(made):
            each = decoder(*batch, **told)
        return [early.get(row) or made(row, found) for row, found in enumerate(each)]

    def stream(
        self,
        model: nn.Module,
        text: str,
        decoder: Any,
        fields: Mapping[str, Any],
        *,
        deadline: float | None = None,
        **asked: Any,
    ) -> Iterator[Prediction]:
        """Predict one text step by step: the best so far after each step, at last as `predict`.

        Args:
            model, decoder, fields: of `predict`.
            text: the input.
            deadline: seconds after which no further step begins.
            asked: as `predict` takes it, for one text.
        """
        known = as_fields(fields, self.fields())
        target = self.spelling(text, known)
        told = {name: value if value is None else [value] for name, value in asked.items()}
        each = self.checked(told, [text], known)
        given = self.asked([text], known)
        if given.dataset is None or not self.batches(given.dataset, self.max_source):
            return iter(given.refused)
        batch, told = self._told(model, given.dataset, [0], decoder, known, each)
        steps = decoder.steps(*batch, **told, deadline=deadline)
        return (self.prediction(text, found[0], target) for found in steps)

    def _told(
        self,
        model: nn.Module,
        dataset: PairDataset,
        indices: Sequence[int],
        decoder: Any,
        fields: Mapping[str, Field],
        asked: Mapping[str, Any],
    ) -> tuple[tuple[nn.Module, Tensor | Inputs, Tensor], dict[str, Any]]:
        """What a decoder gets: model, sources and lengths, and what is asked of their outputs."""
        at, tokenizers = np.asarray(indices, np.int64), tokenizers_of(fields)
        texts = [dataset.texts[i] for i in indices]
        told = wishes(lambda number: self.spelling(texts[number], fields), **asked)
        if own := self.rules(dataset.source.take(at), tokenizers, decoder):
            told["rules"] = [*told.get("rules", ()), *own]
        device = device_of(model)
        source, lengths = dataset.sources(indices)
        return (model, source.to(device), lengths.to(device)), told

    def spelling(self, text: str, fields: Mapping[str, Field]) -> Spelling:
        """What the output for an input is written with; by default the target's vocabulary."""
        return tokenizers_of(fields)["target"]

    def prediction(self, text: str, hypotheses: list[Any], target: Spelling) -> Prediction:
        """The best hypothesis, with the others as its alternatives."""
        if not hypotheses:
            why = "no output within the length limit fits what is asked"
            return Prediction(text, "", refused=why)
        best, *others = (
            Prediction(
                text,
                target.decode(h.tokens),
                h.score,
                target.tokens(h.tokens),
                h.token_scores,
                trail=h.trail,
                ids=h.tokens,
            )
            for h in hypotheses
        )
        best.alternatives.extend(others)
        return best

    def _undecoded(self, text: str, size: int) -> Prediction:
        """What stands for an input until, or unless, it is decoded."""
        over = size > self.max_source
        reason = f"too long: {size} tokens, at most {self.max_source}" if over else ""
        return Prediction(text, "", refused=reason)
