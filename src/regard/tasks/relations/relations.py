"""Relations between the concepts of a document, by a `RelationClassifier`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data import sources
from regard.data.annotations.documents import Relation
from regard.data.dataset import Table
from regard.data.formats.documents import blocks, document_of
from regard.data.pairs.concept_positions import PLACES
from regard.data.problems import Problems
from regard.datasets import section
from regard.datasets.data import Data
from regard.datasets.rows import Rows
from regard.datasets.split_reader import SplitReader
from regard.errors import RequestError, nearest
from regard.fields import Field
from regard.fields.annotated import AnnotatedField, NamesField
from regard.fields.relation import RelationField
from regard.fields.tags import IGNORED
from regard.metrics import Score
from regard.metrics.relations import read_tree, relation_scores, without_hypernyms
from regard.protocols import Inputs
from regard.system.devices import device_of
from regard.tasks.base import Task
from regard.tasks.ensembles import RelationVote
from regard.tasks.inputs import Asked
from regard.tasks.prediction import Prediction
from regard.tasks.relations.answers import (
    Candidates,
    FoundRelations,
    best_relation,
    candidates,
    from_counts,
    keys_of,
    leave_out_hypernyms,
)
from regard.tasks.relations.reader import DocumentReader
from regard.tasks.relations.sampling import SAMPLINGS
from regard.tasks.relations.threshold import best_threshold
from regard.tasks.starting_vectors import VECTORS, FromVectors

__all__ = ["Relations"]


class Relations(FromVectors):
    """Relations between concepts, from all of their mentions in a document.

    Args:
        sampling: how pairs weigh in training: `sides` as in the authors' program (a batch learns
            from its true pairs or from its other ones), `balanced` (the mean of that) or `all`.
        names: weight of the loss of the tags that name mentions; 0: they are not learned.
        names_share: the share of batches that learn from it.
        threshold: from which probability on a relation is there; found on dev after training.
        tree: a file of places of concepts (`metrics.relations.read_tree`): pairs whose tail stands
            above a true one are no training examples, and scores are given without them too.
        vectors: size of a number in vectors counted from the training documents
            (`data.vectors`), which the pieces start from; 0: the model's own.
        features: give the model counts and places of a pair's concepts (`concept_positions`).
        cues: size of the table of words written of a pair (`data.pairs.concept_cues`); 0: none.
    """

    name: ClassVar[str] = "relations"
    metric: ClassVar[str] = "f1"
    viewed: ClassVar[str] = "relations.view"
    reader: ClassVar[type[SplitReader[Any, Any]]] = DocumentReader
    max_length: ClassVar[int] = 5000
    texts: ClassVar[tuple[str, ...]] = ("document",)

    def __init__(
        self,
        *,
        sampling: str = "sides",
        names: float = 10.0,
        names_share: float = 0.5,
        threshold: float = 0.5,
        tree: str = "",
        vectors: float = 0.0,
        features: bool = False,
        cues: int = 0,
    ) -> None:
        if sampling not in SAMPLINGS:
            raise RequestError(f"task.sampling: {sampling!r}: {nearest(sampling, SAMPLINGS)}")
        if not 0 <= threshold <= 1:
            raise RequestError(f"task.threshold is {threshold:g}; it must be from 0 to 1")
        self.sampling, self.names, self.names_share = sampling, names, names_share
        self.threshold, self.tree, self.vectors = threshold, tree, vectors
        self.features, self.cues = features, cues

    # -- data

    def fields(self) -> dict[str, Field]:
        """A document, the tags of its pieces, and the relations of its concepts."""
        text = AnnotatedField("bpe", 2500, lowercase=True, end=False)
        return {
            "document": text.describing(self.features, self.cues),
            "names": NamesField("document"),
            "relation": RelationField("document"),
        }

    @property
    def data_types(self) -> Mapping[str, Any]:
        """Of each key of `data:` its type."""
        files: dict[str, Any] = dict.fromkeys(sources.SPLITS, str | list[str])
        files["dev"] |= dict[str, float | int]
        return {**section.TYPES, **files, "vectors": VECTORS}

    def table(
        self,
        rows: Rows,
        fields: Mapping[str, Field],
        problems: Problems,
        *,
        split: str,
        longest: int | None = None,
    ) -> Table:
        """Documents in columns; those too long to learn from or without a piece are left out.

        Args:
            longest: pieces of a training document, `max_length` where not given.

        Raises:
            RequestError: none is left.
        """
        documents = rows.values["document"]
        places = list(zip(rows.extras["file"], rows.lines, strict=True)) if rows.extras else []

        def report(at: int, what: str, detail: str) -> None:
            if places:
                problems.add(*places[at], what, detail, stays=True)

        columns = {
            name: own.encode(documents, report, fields, rows.values) for name, own in fields.items()
        }
        texts = [one.text for one in documents]
        references = [[fields["relation"].written(one)] for one in documents]
        made = Table(columns, ["document"], texts, references, None, {"document": documents})
        if not places:
            return made
        sizes = columns["document"].sizes
        longest = longest or self.max_length
        over = (sizes > longest) & (split == "train")
        for at in np.flatnonzero(over | (sizes == 0)).tolist():
            detail = f"{sizes[at]} pieces, at most {longest}" if over[at] else "no pieces"
            problems.add(*places[at], "too long" if over[at] else "empty", detail)
        kept = np.flatnonzero(~over & (sizes > 0))
        if not len(kept):
            raise RequestError(f"the {split} split has no usable document: {dict(problems.counts)}")
        made = made if len(kept) == len(sizes) else made.subset(kept.tolist())
        if split == "train" and self.tree:
            leave_out_hypernyms(made, fields["relation"], read_tree(sources.find(self.tree)))
        return made

    def model_arguments(self, fields: Mapping[str, Any]) -> dict[str, int]:
        """As of every task, with what there is about pairs: `num_features` and `num_cues`."""
        told = {"num_features": self.features * len(PLACES), "num_cues": self.cues}
        return super().model_arguments(fields) | {n: size for n, size in told.items() if size}

    # -- learning

    @torch.no_grad()
    def prepare(self, model: nn.Module, data: Data) -> None:
        """Give the model the vectors of its words or pieces."""
        super().prepare(model, data)
        if self.vectors:
            from_counts(model.get_parameter("embed.weight"), data.train, self.vectors)

    def loss(self, model: nn.Module, batch: Any, step: int | None = None) -> tuple[Tensor, int]:
        """Cross-entropy of the pairs, summed; in training their weighted mean for each document.

        In training the loss of the tags is added in a share of the batches.
        """
        output = model(batch["document"])
        labels = batch["relation"]
        known = labels >= 0
        each = F.cross_entropy(output.logits[known].float(), labels[known], reduction="none")
        if step is None:
            return each.sum(), len(each)
        total = (each * SAMPLINGS[self.sampling](labels[known] > 0)).sum()
        if self.names and float(torch.rand(())) < self.names_share:
            tags = batch["names"].values
            logits = output.extra["names"].float().flatten(0, 1)
            named = F.cross_entropy(logits, tags.flatten(), ignore_index=IGNORED)
            total = total + self.names * named
        return total * batch.count, batch.count

    def as_judged(self, model: nn.Module, sample: Any, tokens: int) -> "Relations":
        """With the threshold that is best on the sample."""
        return self._with_threshold(best_threshold(*self._candidates(model, sample, tokens)))

    @torch.no_grad()
    def settled(
        self, model: Any, dev: Any, decoder: Any, fields: Mapping[str, Field], tokens: int
    ) -> dict[str, Any]:
        """The threshold with the greatest F1 on dev."""
        if dev is None or not len(dev):
            return {}
        return {"threshold": best_threshold(*self._candidates(model, dev, tokens))}

    def _with_threshold(self, threshold: float) -> "Relations":
        told = {name: value for name, value in vars(self).items() if name != "threshold"}
        return Relations(threshold=threshold, **told)

    def _candidates(self, model: nn.Module, dev: Any, tokens: int) -> Candidates:
        batches = (dev.collate(at).to(device_of(model)) for at in self.batches(dev, tokens))
        return candidates(model, batches, dev.extras["document"])

    # -- predicting

    def together(self, models: Sequence[nn.Module], tasks: Sequence[Task]) -> nn.Module:
        """Several models as one; each is as sure as its own threshold says."""
        return RelationVote(models, [getattr(own, "threshold", self.threshold) for own in tasks])

    def join(self, lines: Any) -> Any:
        """Single inputs: the lines of a PubTator document belong together."""
        return blocks(lines)

    def asked(self, texts: Sequence[str], fields: Mapping[str, Field]) -> Asked:
        """Documents as PubTator or as JSON, or texts, whose mentions are named first."""
        refused = [Prediction(text, "") for text in texts]
        documents, formats, places = [], [], []
        for place, text in enumerate(texts):
            if not text.strip():
                continue
            try:
                format, one = document_of(text)
                if not one.text.strip() or not fields["document"].cut(one.text).ids:  # type: ignore[attr-defined]
                    raise ValueError("the document has no text")
            except ValueError as error:
                refused[place] = Prediction(text, "", refused=str(error))
                continue
            documents.append(one)
            formats.append(format)
            places.append(place)
        if not places:
            return Asked(None, places, refused)
        made = self.table(Rows(values={"document": documents}), fields, Problems(), split="test")
        made.texts = [texts[i] for i in places]
        made.extras["format"] = formats
        return Asked(made, places, refused)

    def outputs(
        self,
        model: nn.Module,
        dataset: Any,
        indices: Sequence[int],
        decoder: Any,
        fields: Mapping[str, Field],
        **asked: Any,
    ) -> list[Prediction]:
        """The relations of each document; the score is the logarithm of the least sure of them."""
        relation = fields["relation"]
        assert isinstance(relation, RelationField)
        several = dataset.subset(indices)
        formats = several.extras.get("format") or ["jsonl"] * len(indices)
        if bare := [n for n, own in enumerate(formats) if not own]:
            several = self._named(model, several, bare, fields)
        batch = several.collate(range(len(several))).to(device_of(model))
        best, probability = (t.tolist() for t in best_relation(model(batch["document"]).logits))
        found, at = [], 0
        for n in range(len(several)):
            one = several.extras["document"][n]
            pairs = [
                Relation(relation.names[best[at + k]], head, tail, probability[at + k])
                for k, (head, tail) in enumerate(relation.pairs(one))
            ]
            at += len(pairs)
            there = [one for one in pairs if (one.probability or 0.0) >= self.threshold]
            least = min((r.probability or 0.0 for r in there), default=0.0)
            answered = one.with_relations(there)
            found.append(
                FoundRelations(
                    several.texts[n],
                    relation.written(answered),
                    math.log(least) if least else None,
                    document=answered,
                    pairs=tuple(pairs),
                    format=formats[n],
                )
            )
        return list(found)

    def _named(
        self, model: nn.Module, several: Table, bare: Sequence[int], fields: Mapping[str, Field]
    ) -> Table:
        """The documents, with the mentions that the model names in some of them."""
        text, names = fields["document"], fields["names"]
        assert isinstance(text, AnnotatedField)
        assert isinstance(names, NamesField)
        inputs: Inputs = several.collate(bare)["document"].to(device_of(model))
        extras = {name: own for name, own in inputs.extras.items() if name == "states"}
        read = Inputs(inputs.values, inputs.lengths, extras)
        tags = model(read).extra["names"].argmax(-1).tolist()
        documents = list(several.extras["document"])
        for n, own in zip(bare, tags, strict=True):
            pieces = text.cut(documents[n].text)
            named = tuple(names.mentions(own[: len(pieces)], pieces))
            documents[n] = replace(documents[n], mentions=named)
        made = self.table(Rows(values={"document": documents}), fields, Problems(), split="test")
        made.texts = several.texts
        return made

    # -- scores

    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """Precision, recall and F1 over documents; with a tree also without hypernyms."""
        said = [keys_of(one.output) for one in predictions]
        right = [keys_of(one[0]) for one in examples.references]
        found = relation_scores(said, right)
        if self.tree:
            left = without_hypernyms(said, right, read_tree(sources.find(self.tree)))
            found |= relation_scores(left, right, prefix="filtered_")
        return found
