"""Questions about documents, as a trainer sees examples."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.passages.questions import Question
from regard.data.passages.ranked_answers import candidates_in, numbered
from regard.data.passages.reader_vocabulary import ReaderVocabulary
from regard.data.ragged import RaggedIds
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.protocols import PAD

__all__ = ["QuestionBatch", "QuestionDataset", "sizes_of", "vocabulary"]


@dataclass(frozen=True)
class QuestionBatch:
    """Documents and queries of one step.

    Shapes:
        document (B, T), lengths (B,), query (B, Q), query_lengths (B,), all int64 and right-padded;
        gold (B, P, T) bool: where each of the P pointers should point, nowhere for an answer that
        is not in the document; allowed (B, T) bool: where candidates stand, everywhere where there
        are none
    """

    document: Tensor
    lengths: Tensor
    query: Tensor
    query_lengths: Tensor
    gold: Tensor
    allowed: Tensor

    def to(self, device: torch.device | str) -> "QuestionBatch":
        """The same batch on another device."""
        return QuestionBatch(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})

    def __len__(self) -> int:
        return len(self.document)


class QuestionDataset:
    """Questions with their ids.

    Args:
        questions: as read.
        words: makes the ids.
        pointers: 1 to point at a word, 2 to point at the ends of a span.
    """

    def __init__(
        self, questions: Sequence[Question], words: ReaderVocabulary, pointers: int
    ) -> None:
        documents, queries, places = [], [], []
        self.gold: list[tuple[int, ...]] = []
        """Per question the number of the word that is right; or the ends; -1: not there."""
        self.candidates: list[NDArray[np.int64]] = []
        for one in questions:
            surface = one.words
            document, query = words.ids(surface, one.query)
            first = numbered(surface)
            places.append(list(map(first.__getitem__, surface)))
            documents.append(document)
            queries.append(query)
            right = first.get(one.answers[0], -1) if one.answers else -1
            self.gold.append((right,) if pointers == 1 else one.span() or (-1, -1))
            self.candidates.append(candidates_in(one, first))
        self._set(
            questions, RaggedIds.rows(documents), RaggedIds.rows(queries), RaggedIds.rows(places)
        )

    def _set(
        self,
        questions: Sequence[Question],
        document: RaggedIds,
        query: RaggedIds,
        numbers: RaggedIds,
    ) -> None:
        self.questions = list(questions)
        self.document, self.query = document, query
        self.numbers = numbers
        """The number of the word at each place: equal for equal words of a document."""
        self.texts = [one.given or " ".join(one.query) for one in self.questions]
        self.references = [one.answers for one in self.questions]
        self.sizes = np.stack([document.sizes, query.sizes], 1)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def absent(self) -> NDArray[np.int64]:
        """The questions whose answer is not in the document."""
        return np.flatnonzero([gold[0] < 0 for gold in self.gold])

    def count(self, indices: Sequence[int]) -> int:
        """The questions that can be learned from."""
        return sum(self.gold[i][0] >= 0 for i in indices)

    def subset(self, indices: Sequence[int]) -> "QuestionDataset":
        """Some of the questions."""
        made = QuestionDataset.__new__(QuestionDataset)
        at = np.asarray(indices, np.int64)
        made.gold = [self.gold[i] for i in indices]
        made.candidates = [self.candidates[i] for i in indices]
        made._set(
            [self.questions[i] for i in indices],
            self.document.take(at),
            self.query.take(at),
            self.numbers.take(at),
        )
        return made

    def collate(self, indices: Sequence[int]) -> QuestionBatch:
        """Those questions as one padded batch."""
        at = np.asarray(indices, np.int64)
        document, lengths = _padded(self.document, at)
        query, query_lengths = _padded(self.query, at)
        pointers = len(self.gold[0])
        gold = torch.zeros(len(at), pointers, document.shape[1], dtype=torch.bool)
        allowed = torch.zeros(document.shape, dtype=torch.bool)
        for row, i in enumerate(indices):
            for pointer, right in enumerate(self.gold[i]):
                if pointers > 1 and right >= 0:
                    gold[row, pointer, right] = True
                elif right >= 0:
                    gold[row, 0, : lengths[row]] = torch.from_numpy(self.numbers[i] == right)
            allowed[row, : lengths[row]] = True
            if len(self.candidates[i]):
                there = np.isin(self.numbers[i], self.candidates[i])
                allowed[row, : lengths[row]] = torch.from_numpy(there)
        return QuestionBatch(document, lengths, query, query_lengths, gold, allowed)


def _padded(rows: RaggedIds, at: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Rows without an end mark, and their lengths."""
    made = torch.from_numpy(rows.padded(at, PAD, PAD)[:, :-1])
    return made, torch.from_numpy(rows.sizes_at(at))


def sizes_of(words: ReaderVocabulary, pointers: int) -> Mapping[str, int]:
    """What a reader's constructor must know."""
    return {"vocab_size": words.size + words.anonymous, "num_pointers": pointers}


def vocabulary(questions: Sequence[Question], told: Mapping[str, Any]) -> Tokenizer:
    """The commonest words of questions and their documents."""
    kind = told.get("kind", "words")
    if kind != "words":
        raise RequestError(f"data.tokenizer.kind: reading points at words, not at {kind!r}")
    lowercase, counts = bool(told.get("lowercase", False)), Counter[str]()
    for one in questions:
        counts.update(one.words)
        counts.update(one.query)
    if lowercase:
        counts = sum((Counter({w.lower(): n}) for w, n in counts.items()), Counter[str]())
    size = told.get("vocab_size", 10_000)
    most = " ".join(word for word, _ in counts.most_common(size))
    return Tokenizer.train([most], "words", size, lowercase)
