"""Questions about stories as a trainer sees them, and batches in which a sentence is read once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.ragged import RaggedIds
from regard.fields.story import SentenceTable, StoryColumn
from regard.layers.sentence_bags import Sentences

__all__ = ["StoryBatch", "StoryDataset"]


@dataclass(frozen=True, eq=False)
class StoryBatch:
    """Questions of one step with their stories.

    Shapes:
        question (B, Q), lengths (B,) facts, answer (B,) int64
    """

    story: Sentences
    question: Tensor
    lengths: Tensor
    answer: Tensor
    index: list[int]

    @property
    def count(self) -> int:
        """How many questions."""
        return len(self.index)

    def to(self, device: torch.device | str) -> "StoryBatch":
        """Move all of it."""
        names = ("story", "question", "lengths", "answer")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})

    def parts(self) -> list["StoryBatch"]:
        """The short stories and the long ones apart, where that saves half of the padding."""
        lengths, order = self.lengths.sort()
        rows = torch.arange(1, len(self) + 1, device=lengths.device)
        area = rows * lengths + (len(self) - rows) * lengths[-1:]
        cut = int(area.argmin()) + 1 if len(self) else 0
        if not len(self) or 2 * area[cut - 1] > area[-1]:
            return [self]
        return [self._some(order[:cut]), self._some(order[cut:])]

    def _some(self, rows: Tensor) -> "StoryBatch":
        lengths = self.lengths[rows]
        places = self.story.places[rows, : int(lengths.max())]
        index = [self.index[i] for i in rows.tolist()]
        used, inverse = torch.cat([places.new_zeros(1), places.flatten()]).unique(
            return_inverse=True
        )
        story = Sentences(self.story.words[used], inverse[1:].view_as(places))
        return StoryBatch(story, self.question[rows], lengths, self.answer[rows], index)

    def __len__(self) -> int:
        return len(self.index)


class StoryDataset:
    """Questions about stories, as a trainer sees examples.

    Args:
        sheet: the sentences.
        story: which of them are the facts of each question.
        question: which is the question.
        answer: the id of the answer's word.
        references: the answers as written.
        tasks: which task each question belongs to.
    """

    def __init__(
        self,
        sheet: SentenceTable,
        story: RaggedIds,
        question: NDArray[np.int64],
        answer: NDArray[np.int64],
        references: Sequence[list[str]],
        tasks: Sequence[str],
    ) -> None:
        self.sheet, self.story, self.question, self.answer = sheet, story, question, answer
        self.references, self.tasks = references, tasks
        self.given: list[str] | None = None
        """Each story with its question as a user gave it: then it is shown what was looked at."""
        self.sizes = np.ones((len(question), 2), np.int64)  # a batch is this many questions

    @property
    def texts(self) -> list[str]:
        """Each story with its question."""
        return [
            " ".join(self.sheet.texts[i] for i in (*self.story[n], self.question[n]))
            for n in range(len(self))
        ]

    def __len__(self) -> int:
        return len(self.sizes)

    def count(self, indices: Sequence[int]) -> int:
        """Each question counts once."""
        return len(indices)

    def collate(self, indices: Sequence[int]) -> Any:
        """Those questions, each of their sentences once."""
        at = np.asarray(indices, np.int64)
        return StoryBatch(
            StoryColumn(self.sheet, self.story).sentences(at),
            torch.from_numpy(self.sheet.rows(self.question[at])),
            torch.from_numpy(self.story.sizes_at(at)),
            torch.from_numpy(self.answer[at]),
            [int(i) for i in indices],
        )

    def subset(self, indices: Sequence[int]) -> "StoryDataset":
        """Some of the questions, in that order."""
        at = np.asarray(indices, np.int64)
        return StoryDataset(
            self.sheet,
            self.story.take(at),
            self.question[at],
            self.answer[at],
            [self.references[i] for i in indices],
            [self.tasks[i] for i in indices],
        )
