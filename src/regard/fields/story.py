"""Stories: sentences, each written once however many stories it is in."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.passages import stories
from regard.data.passages.stories import SentenceIndex
from regard.data.ragged import RaggedIds
from regard.fields.base import Bad, Field, Report
from regard.fields.text import TextField
from regard.layers.sentence_bags import Sentences
from regard.protocols import PAD, UNK, Inputs

__all__ = ["SentenceTable", "StoryColumn", "StoryField"]


class SentenceTable:
    """Sentences as they were written, and as ids (sentences, longest); the first is empty."""

    def __init__(self, texts: Sequence[str], words: NDArray[np.int64]) -> None:
        self.texts, self.words = texts, words

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ids of some sentences, without columns of padding alone."""
        words = self.words[numbers]
        width = int((words != PAD).sum(1).max(initial=0))
        return np.ascontiguousarray(words[:, : max(width, 1)])


class StoryColumn:
    """Which sentences each story has.

    Args:
        written: the sentences of all stories.
        places: the numbers of each story's sentences.
    """

    def __init__(self, written: SentenceTable, places: RaggedIds) -> None:
        self.written, self.places = written, places

    def __len__(self) -> int:
        return len(self.places)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Sentences of each story."""
        return self.places.sizes

    @property
    def counts(self) -> NDArray[np.int64]:
        """A story counts once."""
        return np.ones(len(self), np.int64)

    def take(self, indices: NDArray[np.int64]) -> "StoryColumn":
        """Some of the stories."""
        return StoryColumn(self.written, self.places.take(indices))

    def sentences(self, indices: NDArray[np.int64]) -> Sentences:
        """Some stories, with each of their sentences once."""
        places = self.places.padded(indices, 0, 0)[:, :-1]
        used, inverse = np.unique(np.append(places, 0), return_inverse=True)
        return Sentences(
            torch.from_numpy(self.written.rows(used)),
            torch.from_numpy(inverse[:-1].reshape(places.shape)),
        )

    def collate(self, indices: NDArray[np.int64]) -> Inputs:
        """Words of the sentences (B, S, W), and how many sentences each story has."""
        words, places = self.sentences(indices)
        return Inputs(words[places], torch.from_numpy(self.places.sizes_at(indices)))


class StoryField(TextField):
    """Sentences that follow each other: the facts that a question is about.

    Args:
        facts: this many of the last sentences are kept.
        target, of: see `Field`.
    """

    kind: ClassVar[str] = "story"

    def __init__(self, facts: int = 50, *, target: bool = False, of: str | None = None) -> None:
        super().__init__("words", 1 << 30, target=target, of=of)
        self.facts = facts

    def read(self, cell: str, row: Mapping[str, Any]) -> Any:
        """The sentences of a cell."""
        found = stories.sentences(cell)
        if not found:
            raise Bad("empty")
        return found

    def written(self, value: Any) -> str:
        """The words of all sentences."""
        if isinstance(value, str):
            return value
        return " ".join(" ".join(stories.words_of(sentence)) for sentence in value)

    def sheet(self) -> SentenceIndex:
        """Where sentences are collected."""
        names = self.tokenizer.vocabulary
        return SentenceIndex({word: i for i, word in enumerate(names) if i > UNK})

    def kept(self, sheet: SentenceIndex, values: Sequence[Sequence[str]]) -> RaggedIds:
        """The last sentences of each story, as numbers of a sheet."""
        return RaggedIds.rows([[sheet.add(fact) for fact in one[-self.facts :]] for one in values])

    def encode(  # type: ignore[override]  # a story is not one row of ids
        self, values: Sequence[Any], report: Report, fields: Mapping[str, Field], rows: Any = None
    ) -> StoryColumn:
        """The sentences of all stories."""
        sheet = self.sheet()
        places = self.kept(sheet, values)
        return StoryColumn(SentenceTable(sheet.texts, sheet.words()), places)
