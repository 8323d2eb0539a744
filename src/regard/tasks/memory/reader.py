"""From files of stories with questions to the splits of a memory task."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data import sources
from regard.data.batch import some
from regard.data.dataset import Dataset
from regard.data.passages import stories
from regard.data.passages.stories import StoryQuestion
from regard.data.problems import Problems
from regard.datasets.dividing import Member
from regard.datasets.pooled_reader import PooledReader
from regard.errors import RequestError, nearest
from regard.fields import Field
from regard.fields.text import with_vocabularies

__all__ = ["StoryReader"]

_KEYS = ("path", "tasks", "size", "format", "columns", "limit", "split", *sources.SPLITS)
_COLUMNS = {name: name for name in ("story", "question", "answer")}

SHARE = 0.1
"""Share of the training questions that are dev where there are no dev files, as in the paper."""

Stories = list[StoryQuestion]


class StoryReader(PooledReader[Stories]):
    """Reads stories with questions.

    `data:` has `path` (a folder, or one file), or `train`, `dev`, `test` (a file each); `tasks`:
    numbers of bAbI tasks, all where not given; `size`: `1k` or `10k`; `format` and `columns` of
    files that are not bAbI text; `limit`: the most training questions of each task; `split`: the
    shares of one file, or of the training files of a folder, each task by itself. A word unknown to
    a trained model says nothing.
    """

    learned = "the vocabulary"
    groups = "stories"

    def __init__(self, task: Any, config: Mapping[str, Any]) -> None:
        for key in config:
            if key not in _KEYS:
                raise RequestError(f"data: stories have no {key!r}: {nearest(key, _KEYS)}")
        super().__init__(task, config)

    def folder(self, place: Path) -> Mapping[str, Any]:
        """Of each split (task, file); see `stories.files`."""
        numbers = self.config.get("tasks")
        tasks = None if numbers in (None, "all") else [_task(number) for number in numbers]
        return stories.files(str(place), tasks, str(self.config.get("size") or "1k"))

    def source(self, told: Any) -> list[tuple[str, Path]]:
        """(task, file); of a file that is named without a task."""
        return told if isinstance(told, list) else [("", sources.find(told))]

    def files(self, splits: Sequence[str]) -> Mapping[str, list[tuple[str, Path]]]:
        """Of each split (task, file)."""
        size = str(self.config.get("size") or "1k")
        if size not in ("1k", "10k"):
            raise RequestError(f"data.size is {size!r}; expected 1k or 10k")
        return super().files(splits)

    def read(self, split: str, source: list[tuple[str, Path]], problems: Problems) -> Stories:
        """The questions of all files."""
        return [question for task, file in source for question in self._of(task, file, problems)]

    def _of(self, task: str, file: Path, problems: Problems) -> Stories:
        match = stories.NAME.fullmatch(file.name)
        task = task or (match[1] if match else file.name.partition(".")[0])
        columns = {**_COLUMNS, **(self.config.get("columns") or {})}
        form, by = self.config.get("format"), self.shares.by if self.shares else ""
        found = list(stories.read(file, task, columns, form, problems, by))
        if not found:
            told = f": {dict(problems.counts)}" if len(problems) else ""
            raise RequestError(f"{file} has no question{told}")
        return found

    def members(self, read: Stories) -> Iterator[Member]:
        """Questions of one story stay together; each task is divided in its shares."""
        for place, one in enumerate(read):
            stratum = "" if self.shares and self.shares.by else one.task
            content = repr((one.task, one.number, one.facts, one.question, one.answer))
            yield Member(place, one.group, stratum, content)

    def pick(self, read: Stories, places: Sequence[int]) -> Stories:
        """Some of the questions."""
        return [read[i] for i in places]

    def limited(self, split: str, read: Stories) -> Stories:
        """At most `data.limit` training questions of each task, spread evenly."""
        return _limited(read, self.config.get("limit")) if split == "train" else read

    def held_out(self, read: dict[str, Stories], splits: Sequence[str]) -> dict[str, Stories]:
        """A tenth of the training questions is dev where no file is."""
        if "train" in read and "dev" not in read and "dev" in splits:
            train, dev = _held_out(read["train"])
            return {**read, "train": train, "dev": dev}
        return read

    def learn(self, train: Stories) -> dict[str, Field]:
        """The words of stories, questions and answers."""
        story = self.declared["story"].learn(_lines(train))
        return with_vocabularies({**self.declared, "story": story})

    def datasets(
        self, read: Mapping[str, Stories], fields: Mapping[str, Field], problems: Problems
    ) -> dict[str, Dataset]:
        """All splits on one sheet of sentences."""
        made: dict[str, Dataset] = self.task.questions(read, fields)
        return made

    def dataset(
        self, split: str, read: Stories, fields: Mapping[str, Field], problems: Problems
    ) -> Dataset:
        """One split on a sheet of its own."""
        return self.datasets({split: read}, fields, problems)[split]


def _task(number: Any) -> str:
    return f"qa{number}" if str(number).isdecimal() else str(number)


def _lines(rows: Sequence[StoryQuestion]) -> list[str]:
    """Every distinct text of some questions, as words: what a vocabulary is learned from."""
    facts = dict.fromkeys(sentence for q in rows for sentence in (*q.facts, q.question))
    answers = dict.fromkeys(stories.answer_word(q.answer) for q in rows)
    return [*(" ".join(stories.words_of(text)) for text in facts), *answers]


def _held_out(rows: Stories) -> tuple[Stories, Stories]:
    """The last tenth of each task is dev, no story in both."""
    train, dev = list[StoryQuestion](), list[StoryQuestion]()
    for several in _by_task(rows).values():
        cut = round(len(several) * (1 - SHARE))
        while 0 < cut < len(several) and several[cut].number == several[cut - 1].number:
            cut += 1
        train += several[:cut]
        dev += several[cut:]
    return train, dev


def _limited(rows: Stories, limit: int | None) -> Stories:
    """At most this many of each task, spread evenly."""
    if limit is None:
        return rows
    groups = _by_task(rows).values()
    return [several[i] for several in groups for i in some(len(several), limit)]


def _by_task(rows: Stories) -> dict[str, Stories]:
    found: dict[str, Stories] = {}
    for row in rows:
        found.setdefault(row.task, []).append(row)
    return found
