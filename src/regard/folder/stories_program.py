"""The program of a model that answers questions about stories: one graph."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.passages.stories import SentenceIndex, spoken, told
from regard.data.passages.story_answer import NONE, OTHERS, StoryAnswer, warn_unknown_words
from regard.data.text.tokenizer import Tokenizer
from regard.folder.without_decoder import WithoutDecoder
from regard.runtime.answer import PlainPrediction
from regard.runtime.operators import Array, log_softmax
from regard.runtime.special_ids import UNK
from regard.runtime.stored_program import fit, graph_of

__all__ = ["StoriesProgram"]


class StoriesProgram(WithoutDecoder):
    """A model that answers questions from the facts that were told before.

    Args:
        stored: what `program.json` says.
        folder: has the tokenizer.
        weights: of the folder.
    """

    inputs: Sequence[str] = ("story", "question")

    def __init__(
        self, stored: Mapping[str, Any], folder: Path, weights: Mapping[str, Array]
    ) -> None:
        self._graph = graph_of(stored["graph"], weights)
        self.tokenizer = Tokenizer.load(folder / stored["tokenizer"])
        self._index = {word: i for i, word in enumerate(self.tokenizer.vocabulary) if i > UNK}
        self._facts: int = stored["facts"]
        self._sizes: Mapping[str, tuple[int, int | None]] = stored["sizes"]

    def predict(self, texts: Sequence[str]) -> list[PlainPrediction]:
        """Answer each question, in order; an empty text has an empty answer.

        Raises:
            BeyondProgram: a story or a question is longer or shorter than the graph is for.
        """
        asked = [told(text) for text in texts]
        read = [one for facts, question in asked if question for one in (*facts, question)]
        warn_unknown_words(read, self.tokenizer.vocabulary)
        for facts, question in asked:
            if question:
                fit("story", len(facts[-self._facts :]), self._sizes["story"], "facts")
        return [
            self._answer(text, facts[-self._facts :], question)
            if question
            else PlainPrediction(text, "", refused=NONE if text.strip() else "")
            for text, (facts, question) in zip(texts, asked, strict=True)
        ]

    def run(self, story: Array, question: Array) -> Mapping[str, Array]:
        """The logits (1, answers), and the weights of each hop as `look.0`, `look.1`, ….

        Args:
            story: ids (1, S, W) of the words of each fact.
            question: ids (1, Q).
        """
        return self._graph.run({"story": story, "question": question})

    def _answer(self, text: str, facts: Sequence[str], question: str) -> StoryAnswer:
        sheet, asked = SentenceIndex(self._index), SentenceIndex(self._index)
        numbers = [sheet.add(fact) for fact in facts]
        asked.add(question)
        ids = asked.words()[1:]
        fit("question", ids.shape[1], self._sizes["question"], "words")
        found = self.run(sheet.words()[numbers][None], ids)
        logits = found["logits"][0].astype(np.float64)
        logits[: UNK + 1] = -np.inf  # none of these is an answer
        scores = log_softmax(logits)
        best = np.argsort(-scores, kind="stable")[:OTHERS].tolist()
        looks = [found[name][0].reshape(-1).tolist() for name in found if name != "logits"]
        first, *rest = ((spoken(self.tokenizer.vocabulary[i]), float(scores[i]), i) for i in best)
        others = [
            PlainPrediction(text, name, value, [name], [value], ids=[i]) for name, value, i in rest
        ]
        name, value, i = first
        return StoryAnswer(
            text, name, value, [name], [value], others, ids=[i], facts=list(facts), looks=looks
        )
