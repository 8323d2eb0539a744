"""Splits in tables: a row of a file is an example, in memory, in a store, or in a stream."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.dataset import Column, Dataset
from regard.data.problems import Problems
from regard.datasets import encoding, rows, stored, streamed
from regard.datasets.rows import Rows
from regard.datasets.section import Config
from regard.datasets.split_files import warn_alone
from regard.datasets.split_reader import SplitReader
from regard.datasets.unseen import say_unseen
from regard.fields import Field
from regard.fields.sets import as_fields, with_states, with_vectors

__all__ = ["StreamedFiles", "TableReader", "files_or_stream"]

Found = dict[str, Field]


@dataclass(frozen=True)
class StreamedFiles:
    """The files of a training split that is read a buffer at a time (`data.stream`)."""

    files: list[Any]


@dataclass(frozen=True)
class _Stored:
    """A training split on disk: its columns are encoded already."""

    columns: dict[str, Column]
    rows: Rows


def files_or_stream(section: Config, splits: Sequence[str]) -> dict[str, Any]:
    """The file of each split that there is; of a training split in a stream its files.

    Raises:
        RequestError: none is there.
    """
    if not section.stream or "train" not in splits:
        return section.files(splits)
    told = bool(section.stream.get("files"))
    others = [split for split in splits if split != "train"] if told else list(splits)
    there = section.path is not None or any(split in section.given for split in others)
    found = section.files(others) if there and others else {}
    train = StreamedFiles(streamed.files_of(section.stream, found.pop("train", None)))
    return {"train": train, **found}


class TableReader(SplitReader[Any, Any]):
    """Reads rows of files; what is empty, too long or broken is left out and reported."""

    def __init__(self, task: Any, config: Mapping[str, Any]) -> None:
        super().__init__(task, config)
        self.section = Config.of(config, self.declared, task.columns, task.header, task.max_length)

    @property
    def said(self) -> str:
        """The tokenizers, or the fields."""
        return encoding.learned_of(self.section)

    def files(self, splits: Sequence[str]) -> Mapping[str, Any]:
        """See `section.Config.files` and `files_or_stream`."""
        found = files_or_stream(self.section, splits)
        warn_alone(found, splits, self.config)
        return found

    def known(self, fields: Mapping[str, Any]) -> Found:
        """The fields of a trained model; those it lacks are as the section says."""
        told = self.section.fields
        return {**told, **as_fields(fields, told)}

    def read_knowing(
        self, split: str, source: Any, known: Found | None, problems: Problems
    ) -> tuple[Found | None, Any]:
        """Rows in memory; the training split may be in a store or in a stream."""
        if isinstance(source, StreamedFiles):
            return streamed.training(self.task, self.section, source.files, known)
        if split == "train" and self.section.store:
            found, columns, own = stored.training(self.task, self.section, source, known, problems)
            return found, _Stored(columns, own)
        return known, self.read(split, source, problems)

    def read(self, split: str, source: Any, problems: Problems) -> Rows:
        """See `rows.read`."""
        return rows.read(source, self.section, self.task.examples, split, problems)

    def learn(self, train: Rows) -> Found:
        """See `encoding.learn`."""
        return encoding.learn(self.section, train)

    def completed(self, fields: Found, read: Mapping[str, Any]) -> Found:
        """With the word vectors of the section, where a training begins, and with its encoder."""
        fields = with_states(fields, self.section.fields)
        return with_vectors(fields, self.section.fields) if "train" in read else fields

    def datasets(
        self, read: Mapping[str, Any], fields: Mapping[str, Field], problems: Problems
    ) -> dict[str, Dataset]:
        """Every split, encoded, with what `Task.extend` adds to its rows."""
        own = {
            split: one.rows if isinstance(one, _Stored) else one
            for split, one in read.items()
            if isinstance(one, Rows | _Stored)
        }
        self.task.extend(own, self.section, fields)
        return super().datasets(read, fields, problems)

    def dataset(
        self, split: str, read: Any, fields: Mapping[str, Field], problems: Problems
    ) -> Dataset:
        """The rows of a split as columns; a warning says how many words were never seen."""
        if isinstance(read, _Stored):
            columns, kept = read.columns, read.rows
        elif isinstance(read, Rows):
            columns, kept = encoding.encode(read, self.section, fields, split, problems)
        else:
            stream: Dataset = read
            return stream
        if split != "train":
            say_unseen(columns, kept, fields, split)
        made: Dataset = self.task.dataset(columns, kept)
        return made

    def noted(self, files: Mapping[str, Any], splits: Sequence[str]) -> Mapping[str, Any]:
        """How cells are divided, and how the rows of one file were; see `section.Config.noted`."""
        if any(isinstance(one, StreamedFiles) for one in files.values()):
            return {}
        return self.section.noted(files)
