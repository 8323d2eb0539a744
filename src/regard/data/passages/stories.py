"""Stories with questions: from files to arrays, each distinct sentence kept and read once."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data import sources
from regard.data.files import registry
from regard.data.files.row import column_of
from regard.data.problems import Problems
from regard.data.text.normal_form import composed
from regard.data.text.words import sentences as sentence_parts
from regard.errors import RequestError
from regard.runtime.special_ids import PAD, UNK

__all__ = [
    "SentenceIndex",
    "StoryQuestion",
    "answer_word",
    "files",
    "read",
    "sentences",
    "spoken",
    "told",
    "words_of",
]

NAME = re.compile(r"(qa\d+)_.*_(train|train-10k|dev|valid|val|test)\.txt(?:\.gz)?")
"""The names of bAbI files: the task, and the split."""

SPLIT = {"valid": "dev", "val": "dev"}
JOINT = "␣"
"""Stands for the space in an answer of several words, which is one word of the vocabulary."""

_NUMBER = re.compile(r"^\d+\s+(?=\S)")
_MARKS = ".,;:!?\"'()[]"


@dataclass(frozen=True, slots=True)
class StoryQuestion:
    """A question with what was told before it.

    Args:
        facts: from the first to the last.
        task: which of several it belongs to.
        number: of its story in its file.
        group: what stays in one split: its story, or the value of a column.
    """

    facts: list[str]
    question: str
    answer: str
    task: str
    number: str
    file: str
    line: int
    group: str = ""


def words_of(text: str) -> list[str]:
    """The words of a sentence: small letters, without the marks around them.

    Example:
        >>> words_of("Where is Mary's  Key?")
        ['where', 'is', "mary's", 'key']
    """
    plain = composed(text).lower().split()
    return [bare for word in plain if (bare := word.strip(_MARKS))]


def answer_word(text: str) -> str:
    """An answer as one word of the vocabulary, a list (`apple,key`) too, as in the authors' code.

    Example:
        >>> answer_word("The  Hall"), answer_word("apple,key")
        ('the␣hall', 'apple,key')
    """
    return JOINT.join(composed(text).lower().split())


def spoken(word: str) -> str:
    """An answer as people write it."""
    return word.replace(JOINT, " ")


def sentences(text: str) -> list[str]:
    """Sentences: they end with `.`, `?` or `!` before a space, with their script's, or their line.

    bAbI's numbers before them, and what stands behind a tab, are left out.
    """
    lines = (line.partition("\t")[0] for line in text.splitlines())
    parts = (_NUMBER.sub("", part.strip()) for line in lines for part in sentence_parts(line))
    return [part for part in parts if words_of(part)]


def told(text: str) -> tuple[list[str], str]:
    """Facts and question of a story in one text: sentences, the last of which is the question.

    Example:
        >>> told("Mary went home. Bob slept.  Where is Mary?")
        (['Mary went home.', 'Bob slept.'], 'Where is Mary?')
    """
    *facts, question = sentences(text) or [""]
    return facts, question


def files(path: str, tasks: Sequence[str] | None, size: str) -> dict[str, list[tuple[str, Path]]]:
    """The files of each split, as (task, file), of a folder of bAbI files or of one split each.

    Args:
        path: a folder with `qa1_*_train.txt` … (or `.gz`), or with `train.jsonl` ….
        tasks: which tasks (`qa1`); all where None.
        size: `10k` reads the `train-10k` files behind those of `train`.

    Raises:
        RequestError: nothing there, or a task that is not there.
    """
    folder = sources.find(path)
    found: dict[str, list[tuple[int, str, Path]]] = {}
    for file in folder.iterdir():
        match = NAME.fullmatch(file.name)
        if match:
            task, split = match[1], SPLIT.get(match[2], match[2])
            found.setdefault(split, []).append((int(task[2:]), task, file))
    if not found:
        return {split: [("", file)] for split, file in sources.splits(folder).items()}
    there = {task for several in found.values() for _, task, _ in several}
    for task in tasks or ():
        if task not in there:
            names = ", ".join(sorted(there, key=lambda name: int(name[2:])))
            raise RequestError(f"data.tasks: {folder} has no task {task!r}; it has {names}")
    if size == "10k":
        if "train-10k" not in found:
            raise RequestError(
                f"data.size is 10k, but {folder} has no *_train-10k.txt files; where all of 10,000 "
                "are in one file (the original en-10k folder), say 1k: it reads train files whole"
            )
        found["train"] = found.get("train", []) + found["train-10k"]
    found.pop("train-10k", None)
    return {
        split: [
            (task, file)
            for _, task, file in sorted(several, key=lambda one: one[0])
            if tasks is None or task in tasks
        ]
        for split, several in found.items()
    }


def read(
    file: Path,
    task: str,
    columns: Mapping[str, str],
    form: str | None,
    problems: Problems,
    by: str = "",
) -> Iterator[StoryQuestion]:
    """The questions of a file: bAbI text, or rows with `story`, `question` and `answer`.

    Args:
        by: a column whose value groups questions; "": those of one story are a group.
    """
    form = form or registry.format_of(file, {".txt": "babi"})
    is_babi = form == "babi"
    wanted = dict[str, str | int](columns) | ({"number": "number"} if is_babi else {})
    if by:
        wanted["split by"] = column_of(by)
    for row in registry.read(file, wanted, form, True, problems):
        f = row.fields
        facts = f["story"].split("\n") if is_babi else sentences(f["story"])
        number, told = f.get("number", str(row.line)), f.get("task") or task
        story = f"{row.file} {number}" if is_babi else f["story"]
        yield StoryQuestion(
            [fact for fact in facts if fact],
            f["question"],
            f["answer"],
            told,
            number,
            row.file,
            row.line,
            str(f["split by"]) if by else f"{told} {story}",
        )


@dataclass
class SentenceIndex:
    """Distinct sentences and their words; the first is empty.

    Args:
        index: the id of each word; others are unknown.
    """

    index: Mapping[str, int]
    texts: list[str] = field(default_factory=lambda: [""])
    rows: list[list[int]] = field(default_factory=lambda: [[]])
    _known: dict[str, int] = field(default_factory=lambda: {"": 0})

    def add(self, text: str) -> int:
        """The number of a sentence."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = len(self.texts)
            self.texts.append(text)
            self.rows.append([self.index.get(word, UNK) for word in words_of(text)])
        return found

    def words(self) -> NDArray[np.int64]:
        """All of them, right-padded: (sentences, longest)."""
        longest = max(max(map(len, self.rows)), 1)
        out = np.full((len(self.rows), longest), PAD, np.int64)
        for row, ids in zip(out, self.rows, strict=True):
            row[: len(ids)] = ids
        return out
