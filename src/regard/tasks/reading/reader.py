"""From files of questions to the splits of a reading task."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from regard.data import sources
from regard.data.batch import some
from regard.data.dataset import Dataset
from regard.data.passages import questions
from regard.data.problems import Problems
from regard.datasets import section
from regard.datasets.dividing import Member
from regard.datasets.pooled_reader import PooledReader
from regard.errors import RequestError
from regard.fields import Field
from regard.tasks.reading.questions import QuestionDataset, sizes_of, vocabulary

__all__ = ["ENTRY", "QuestionReader"]

log = logging.getLogger(__name__)

ENTRY = str | dict[str, Any]
"""One file of a split, or a section that takes or leaves some of its questions."""
_KEYS = ("path", "columns", "format", "tokenizer", "limit", "last_words", "split", *sources.SPLITS)
_TOKENIZER = ("vocab_size", "lowercase", "kind")
_FILE = ("file", "only", "without")

Questions = list[questions.Question]


class QuestionReader(PooledReader[Questions]):
    """Reads documents with questions.

    Each split is a file or a list of files, which are pooled; `{file: …, only: [1, 100]}` and
    `without: [1, 100]` take or leave questions by their number in the file. Training questions
    whose answer is not in the document are reported and left out; dev and test stay whole.
    `last_words` cuts training documents to their last words, for speed; questions that lose
    their answer by it are left out too. `split` divides the training files by articles of SQuAD,
    by documents, or by a key.
    """

    learned = "the vocabulary"
    groups = "articles and documents"

    def __init__(self, task: Any, config: Mapping[str, Any]) -> None:
        section.refuse_unknown("data", config, _KEYS)
        super().__init__(task, config)
        section.refuse_unknown("data.tokenizer", config.get("tokenizer") or {}, _TOKENIZER)
        self._seen: dict[Any, Questions] = {}  # a file may be in two splits

    def read(self, split: str, source: list[Any], problems: Problems) -> Questions:
        """The questions of a split that have an answer."""
        found: Questions = []
        for entry in source:
            told = dict(entry) if isinstance(entry, Mapping) else {"file": entry}
            section.refuse_unknown(f"data.{split}", told, _FILE)
            path = sources.find(told.get("file", ""))
            if path not in self._seen:
                named = {key: self.config.get(key) for key in ("format", "columns")}
                by = self.shares.by if self.shares else ""
                self._seen[path] = list(questions.read(path, problems, **named, by=by))
            found += _ranged(self._seen[path], told, f"data.{split}: {told.get('file')}")
        for one in found:
            if not one.answers:
                problems.add(one.file, one.line, "no answer")
        found = [one for one in found if one.answers]
        if not found:
            counted = f": {dict(problems.counts)}" if len(problems) else ""
            raise RequestError(f"the {split} split has no usable question{counted}")
        return found

    def members(self, read: Questions) -> Iterator[Member]:
        """Questions about one article, or one document, stay together."""
        for place, one in enumerate(read):
            content = repr((one.text, one.query, one.answers, one.starts, one.candidates))
            yield Member(place, one.group, "", content)

    def pick(self, read: Questions, places: Sequence[int]) -> Questions:
        """Some of the questions."""
        return [read[i] for i in places]

    def limited(self, split: str, read: Questions) -> Questions:
        """Some questions, spread evenly; of training documents their last words."""
        found = read
        if split == "train" and (last := self.config.get("last_words")):
            found = [replace(one, places=one.places[-int(last) :]) for one in found]
        limit = section.limits_of(self.config).get(split)
        if limit is not None and limit < len(found):
            found = [found[i] for i in some(len(found), limit)]
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
