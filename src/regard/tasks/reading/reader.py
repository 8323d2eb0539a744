"""From files of questions to the splits of a reading task."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from regard.data import sources
from regard.data.batch import some
from regard.data.dataset import Dataset
from regard.data.passages import questions
from regard.data.problems import Problems
from regard.datasets import section
from regard.datasets.split_reader import SplitReader
from regard.errors import RequestError
from regard.fields import Field
from regard.tasks.reading.questions import QuestionDataset, sizes_of, vocabulary

__all__ = ["ENTRY", "QuestionReader"]

log = logging.getLogger(__name__)

ENTRY = str | dict[str, Any]
"""One file of a split, or a section that takes or leaves some of its questions."""
_KEYS = ("path", "columns", "format", "tokenizer", "limit", "last_words", *sources.SPLITS)
_TOKENIZER = ("vocab_size", "lowercase", "kind")
_FILE = ("file", "only", "without")

Questions = list[questions.Question]


class QuestionReader(SplitReader[list[Any], Questions]):
    """Reads documents with questions.

    Each split is a file or a list of files, which are pooled; `{file: …, only: [1, 100]}` and
    `without: [1, 100]` take or leave questions by their number in the file. Training questions
    whose answer is not in the document are reported and left out; dev and test stay whole.
    `last_words` cuts training documents to their last words, for speed; questions that lose
    their answer by it are left out too.
    """

    learned = "the vocabulary"

    def __init__(self, task: Any, config: Mapping[str, Any]) -> None:
        super().__init__(task, config)
        section.refuse_unknown("data", config, _KEYS)
        section.refuse_unknown("data.tokenizer", config.get("tokenizer") or {}, _TOKENIZER)
        self._seen: dict[Any, Questions] = {}  # a file may be in two splits

    def files(self, splits: Sequence[str]) -> Mapping[str, list[Any]]:
        """What names the files of each split that is asked for."""
        config = self.config
        named = {s: config[s] for s in sources.SPLITS if config.get(s)}
        if config.get("path"):
            place = sources.find(config["path"])
            if place.is_dir():
                named = {**{s: str(f) for s, f in sources.splits(place).items()}, **named}
            else:
                named = {splits[0] if len(splits) == 1 else "train": config["path"], **named}
        found = {
            split: [*named[split]] if isinstance(named[split], list | tuple) else [named[split]]
            for split in splits
            if split in named
        }
        if not found:
            raise RequestError(
                f"data names no {' or '.join(splits)} file: give data.path, or "
                + ", ".join(f"data.{split}" for split in splits)
            )
        return found

    def read(self, split: str, source: list[Any], problems: Problems) -> Questions:
        """The questions of a split that have an answer."""
        found: Questions = []
        for entry in source:
            told = dict(entry) if isinstance(entry, Mapping) else {"file": entry}
            section.refuse_unknown(f"data.{split}", told, _FILE)
            path = sources.find(told.get("file", ""))
            if path not in self._seen:
                named = {key: self.config.get(key) for key in ("format", "columns")}
                self._seen[path] = list(questions.read(path, problems, **named))
            found += _ranged(self._seen[path], told, f"data.{split}: {told.get('file')}")
        for one in found:
            if not one.answers:
                problems.add(one.file, one.line, "no answer")
        found = [one for one in found if one.answers]
        if split == "train" and (last := self.config.get("last_words")):
            found = [replace(one, places=one.places[-int(last) :]) for one in found]
        limit = section.limits_of(self.config).get(split)
        if limit is not None and limit < len(found):
            found = [found[i] for i in some(len(found), limit)]
        if not found:
            told_problems = f": {dict(problems.counts)}" if len(problems) else ""
            raise RequestError(f"the {split} split has no usable question{told_problems}")
        return found

    def learn(self, train: Questions) -> dict[str, Field]:
        """The words of documents and queries."""
        return self.known({"document": vocabulary(train, self.config.get("tokenizer") or {})})

    def dataset(
        self, split: str, read: Questions, fields: Mapping[str, Field], problems: Problems
    ) -> Dataset:
        """Questions in ids."""
        made = QuestionDataset(read, self.task.words(fields), self.task.pointers)
        if split == "train":
            return _answerable(made, problems)
        if absent := len(made.absent):
            log.warning(
                "%s: %d of %d answers are not in their document: they count as questions, not in "
                "the loss",
                split,
                absent,
                len(made),
            )
        return made

    def sizes(self, fields: Mapping[str, Field]) -> Mapping[str, int]:
        """The vocabulary with the ids of unknown words, and how many pointers."""
        return sizes_of(self.task.words(fields), self.task.pointers)


def _ranged(found: Questions, told: Mapping[str, Any], where: str) -> Questions:
    """Those of the numbers (from 1) that are asked for."""
    ranges = {key: told[key] for key in ("only", "without") if told.get(key) is not None}
    for key, value in ranges.items():
        pair = isinstance(value, list | tuple) and len(value) == 2
        if not pair or any(not isinstance(v, int) or isinstance(v, bool) for v in value):
            raise RequestError(
                f"{where}: {key}: expected two numbers, [first, last]; got {value!r}"
            )
    return [
        one
        for number, one in enumerate(found, 1)
        if all((a <= number <= b) == (key == "only") for key, (a, b) in ranges.items())
    ]


def _answerable(train: QuestionDataset, problems: Problems) -> QuestionDataset:
    """Training questions whose answer is in the document; the others are reported."""
    absent = train.absent.tolist()
    if not absent:
        return train
    for i in absent:
        one = train.questions[i]
        answer = one.answers[0] if one.answers else ""
        problems.add(one.file, one.line, "answer not in the document", repr(answer))
    for file in {train.questions[i].file for i in absent}:
        problems.report(file)
    if len(absent) == len(train):
        raise RequestError("no training question has its answer in its document")
    return train.subset(sorted(set(range(len(train))) - set(absent)))
