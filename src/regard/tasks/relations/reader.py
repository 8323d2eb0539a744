"""From annotated documents to the splits of a relation task."""

from collections.abc import Mapping, Sequence
from typing import Any

from regard.data import sources
from regard.data.batch import some
from regard.data.dataset import Dataset
from regard.data.formats.documents import read as read_documents
from regard.data.problems import Problems
from regard.datasets import held_out, section
from regard.datasets.rows import Rows
from regard.datasets.split_reader import SplitReader
from regard.errors import RequestError
from regard.fields import Field
from regard.fields.annotated import AnnotatedField
from regard.fields.contextual import vectors_of
from regard.fields.sets import with_states, with_vectors

__all__ = ["DocumentReader"]

_KEYS = ("path", "format", "tokenizer", "limit", "max_length", "vectors", *sources.SPLITS)
_TOKENIZER = ("kind", "vocab_size", "lowercase", "min_count")


class DocumentReader(SplitReader[list[Any], Rows]):
    """Reads annotated documents.

    `data:` has `path`, or `train`, `dev`, `test` (a file or several, whose documents are pooled);
    `dev: {share: 0.15, seed: 1}` holds out this share of the training documents; `format` of the
    files; `tokenizer`; `limit` and `max_length` (of training); `vectors` of words
    (`fields.pretrained`) and of an encoder (`fields.contextual`).
    """

    def __init__(self, task: Any, config: Mapping[str, Any]) -> None:
        super().__init__(task, config)
        section.refuse_unknown("data", config, _KEYS)
        told = config.get("tokenizer") or {}
        section.refuse_unknown("data.tokenizer", told, _TOKENIZER)
        dev = config.get("dev")
        self._share = dev if isinstance(dev, Mapping) else None
        words, encoder = vectors_of(config.get("vectors"))
        text = self.declared["document"]
        assert isinstance(text, AnnotatedField)
        self._text = text.configured(told).starting_from(words).in_context(encoder)

    def files(self, splits: Sequence[str]) -> Mapping[str, list[Any]]:
        """See `held_out.files_of_splits`; training documents are read for a dev among them."""
        both = self._share is not None and "dev" in splits
        wanted = {*splits, "train"} if both else {*splits}
        return held_out.files_of_splits(self.config, [s for s in sources.SPLITS if s in wanted])

    def read(self, split: str, source: list[Any], problems: Problems) -> Rows:
        """The documents of all files, spread evenly where there is a limit."""
        found = Rows(values={"document": []}, extras={"file": []})
        for path in source:
            for line, one in read_documents(path, self.config.get("format"), problems):
                found.values["document"].append(one)
                found.lines.append(line)
                found.extras["file"].append(str(path))  # type: ignore[attr-defined]
        found.references = [[""]] * len(found)
        limit = section.limits_of(self.config).get(split)
        if limit is not None:
            found = found.pick(some(len(found), limit))
        if not len(found):
            counted = f": {dict(problems.counts)}" if len(problems) else ""
            raise RequestError(f"the {split} split has no usable document{counted}")
        return found

    def divided(self, read: dict[str, Rows], splits: Sequence[str]) -> dict[str, Rows]:
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
