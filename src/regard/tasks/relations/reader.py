"""From annotated documents to the splits of a relation task."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data import sources
from regard.data.annotations.documents import as_line
from regard.data.batch import some
from regard.data.dataset import Dataset
from regard.data.formats.documents import with_groups
from regard.data.problems import Problems
from regard.datasets import held_out, section
from regard.datasets.dividing import Member
from regard.datasets.pooled_reader import PooledReader
from regard.datasets.rows import Rows
from regard.errors import RequestError
from regard.fields import Field
from regard.fields.annotated import AnnotatedField
from regard.fields.contextual import vectors_of
from regard.fields.sets import with_states, with_vectors

__all__ = ["DocumentReader"]

_KEYS = ("path", "format", "tokenizer", "limit", "max_length", "vectors", "split", *sources.SPLITS)
_TOKENIZER = ("kind", "vocab_size", "lowercase", "min_count")


class DocumentReader(PooledReader[Rows]):
    """Reads annotated documents.

    `data:` has `path`, or `train`, `dev`, `test` (a file or several, whose documents are pooled);
    `dev: {share: 0.15, seed: 1}` holds out this share of the training documents; `format` of the
    files; `tokenizer`; `limit` and `max_length` (of training); `split` divides the training
    documents; `vectors` of words (`fields.pretrained`) and of an encoder (`fields.contextual`).
    """

    groups = "documents"

    def __init__(self, task: Any, config: Mapping[str, Any]) -> None:
        section.refuse_unknown("data", config, _KEYS)
        super().__init__(task, config)
        told = config.get("tokenizer") or {}
        section.refuse_unknown("data.tokenizer", told, _TOKENIZER)
        dev = config.get("dev")
        self._share = dev if isinstance(dev, Mapping) else None
        words, encoder = vectors_of(config.get("vectors"))
        text = self.declared["document"]
        assert isinstance(text, AnnotatedField)
        self._text = text.configured(told).starting_from(words).in_context(encoder)

    @property
    def named(self) -> Mapping[str, Any]:
        """The section without a share for dev."""
        left = "dev" if self._share is not None else ""
        return {key: value for key, value in self.config.items() if key != left}

    def files(self, splits: Sequence[str]) -> Mapping[str, list[Any]]:
        """See `split_files`; training documents are read for a dev among them."""
        both = self._share is not None and "dev" in splits
        return super().files([*splits, "train"] if both else splits)

    def source(self, told: Any) -> list[Path]:
        """The files of a split, whose documents are pooled."""
        return [sources.find(one) for one in super().source(told)]

    def read(self, split: str, source: list[Path], problems: Problems) -> Rows:
        """The documents of all files."""
        found = Rows(values={"document": []}, extras={"file": [], "group": []})
        by = self.shares.by if self.shares else ""
        for path in source:
            for line, one, group in with_groups(path, self.config.get("format"), problems, by):
                found.values["document"].append(one)
                found.lines.append(line)
                found.extras["file"].append(str(path))  # type: ignore[attr-defined]
                found.extras["group"].append(group)  # type: ignore[attr-defined]
        found.references = [[""]] * len(found)
        if not len(found):
            counted = f": {dict(problems.counts)}" if len(problems) else ""
            raise RequestError(f"the {split} split has no usable document{counted}")
        return found if self._share is None else self.limited(split, found)

    def members(self, read: Rows) -> Iterator[Member]:
        """Documents with one text, or one value of a key, stay together."""
        for place, one in enumerate(read.values["document"]):
            yield Member(place, read.extras["group"][place], "", as_line(one))

    def pick(self, read: Rows, places: Sequence[int]) -> Rows:
        """Some of the documents."""
        return read.pick(places)

    def limited(self, split: str, read: Rows) -> Rows:
        """At most `data.limit` documents, spread evenly."""
        limit = section.limits_of(self.config).get(split)
        return read if limit is None else read.pick(some(len(read), limit))

    def held_out(self, read: dict[str, Rows], splits: Sequence[str]) -> dict[str, Rows]:
        """A share of the training documents is dev, where the section says so."""
        if self._share is None or "train" not in read:
            return read
        kept, out = held_out.held_out(self._share, len(read["train"]))
        return {**read, "dev": read["train"].pick(out), "train": read["train"].pick(kept)}

    def learn(self, train: Rows) -> dict[str, Field]:
        """The pieces of documents, the tags of names, and the relations."""
        documents = train.values["document"]
        found: dict[str, Field] = {"document": self._text.learn(documents)}
        return found | {n: self.declared[n].learn(documents) for n in ("names", "relation")}

    def completed(self, fields: dict[str, Field], read: Mapping[str, Rows]) -> dict[str, Field]:
        """With the word vectors of the section, where a training begins, and with its encoder."""
        fields = with_states(fields, {"document": self._text})
        return with_vectors(fields, {"document": self._text}) if "train" in read else fields

    def dataset(
        self, split: str, read: Rows, fields: Mapping[str, Field], problems: Problems
    ) -> Dataset:
        """Documents with the pairs of their concepts."""
        longest = self.config.get("max_length")
        made: Dataset = self.task.table(read, fields, problems, split=split, longest=longest)
        return made
