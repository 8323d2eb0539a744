"""The program of a model that reads a document and points at the answer: one graph."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.passages.questions import Question, blocks
from regard.data.passages.ranked_answers import (
    asked_question,
    candidates_in,
    numbered,
    ranked_spans,
    ranked_words,
)
from regard.data.passages.reader_vocabulary import ReaderVocabulary
from regard.data.text.tokenizer import Tokenizer
from regard.folder.without_decoder import WithoutDecoder
from regard.runtime.answer import PlainPrediction
from regard.runtime.operators import Array
from regard.runtime.stored_program import fit, graph_of

__all__ = ["ReadingProgram"]


class ReadingProgram(WithoutDecoder):
    """A model that answers questions about documents.

    Args:
        stored: what `program.json` says.
        folder: has the tokenizer.
        weights: of the folder.
    """

    inputs: Sequence[str] = ("document", "query")

    def __init__(
        self, stored: Mapping[str, Any], folder: Path, weights: Mapping[str, Array]
    ) -> None:
        self._graph = graph_of(stored["graph"], weights)
        self.tokenizer = Tokenizer.load(folder / stored["tokenizer"])
        self._words = ReaderVocabulary(self.tokenizer, stored["anonymous"])
        self._max_document: int = stored["max_document"]
        self._longest: int = stored["longest"]
        self._pointers: int = stored["pointers"]
        self._sizes: Mapping[str, tuple[int, int | None]] = stored["sizes"]

    def join(self, lines: Iterator[str]) -> Iterator[str]:
        """The numbered lines of a question belong together."""
        return blocks(lines)

    def predict(self, texts: Sequence[str]) -> list[PlainPrediction]:
        """Answer each question, in order; `refused` says why a text is not one.

        Raises:
            BeyondProgram: a document or a query is longer or shorter than the graph is for.
        """
        asked = [
            asked_question(text, self._max_document, blank=self._pointers == 1) for text in texts
        ]
        return [
            PlainPrediction(text, "", refused=one) if isinstance(one, str) else self._answer(one)
            for text, one in zip(texts, asked, strict=True)
        ]

    def logits(self, document: Sequence[int], query: Sequence[int]) -> Array:
        """Log-probabilities of places: (pointers, T)."""
        for (name, bounds), ids in zip(self._sizes.items(), (document, query), strict=True):
            fit(name, len(ids), bounds, "words")
        given = {"document": np.array([document]), "query": np.array([query])}
        found: Array = self._graph.run(given)["logits"][0]
        return found

    def _answer(self, one: Question) -> PlainPrediction:
        words = one.words
        logs = self.logits(*self._words.ids(words, one.query)).astype(np.float64)
        if self._pointers == 1:
            first = numbered(words)
            numbers = [first[word] for word in words]
            ranked = ranked_words(one, numbers, candidates_in(one, first), logs)
        else:
            ranked = ranked_spans(one, logs, self._longest)
        text = one.given or " ".join(one.query)
        best, *others = (PlainPrediction(text, *answer) for answer in ranked)
        best.alternatives.extend(others)
        return best
