"""The best candidates of a reader once more, each filled into the blank and judged by counts.

    score(c) = log P(c | D, Q) + λ_g log P_global(Q with c) + λ_l log P_local(Q with c)

The global language model is counted over the training documents, the local one over the document
itself. Source: Cui et al. (2017), section 4.2. There the models are 8-grams (SRILM), a third one is
over word classes, and the weights are learned by K-best MIRA; here there are shorter n-grams with
Witten-Bell smoothing, no classes, and the weights are the best of a grid on questions kept aside.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regard.data.formats.cbt import BLANK
from regard.data.passages.questions import Question
from regard.data.text.ngrams import NGrams
from regard.tasks.prediction import Prediction

__all__ = ["Reranker", "global_model"]

GRID = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0)
ENDS = frozenset(".!?")


def _sentences(one: Question) -> list[list[str]]:
    """The document's words up to each end mark."""
    found: list[list[str]] = [[]]
    for word in one.words:
        found[-1].append(word)
        if word in ENDS:
            found.append([])
    return [sentence for sentence in found if sentence]


def global_model(questions: Sequence[Question], order: int = 3) -> NGrams:
    """Counted over the documents; a sentence that many of them share counts once."""
    every = {tuple(s): None for one in questions for s in _sentences(one)}
    return NGrams(every, order)


@dataclass(frozen=True)
class Reranker:
    """Reader and language models together.

    Args:
        model: the global one.
        weights: λ_g and λ_l.
        best: N, how many candidates are judged again.
        order: of the local model.
    """

    model: NGrams
    weights: tuple[float, float] = (0.0, 0.0)
    best: int = 5
    order: int = 3

    def features(self, one: Question, candidates: Sequence[str]) -> NDArray[np.float64]:
        """Log-probabilities under both language models: (candidates, 2)."""
        local = NGrams(_sentences(one), self.order)
        place = one.query.index(BLANK)
        rows = []
        for candidate in candidates:
            filled = [*one.query[:place], candidate, *one.query[place + 1 :]]
            rows.append([model.around(filled, place) for model in (self.model, local)])
        return np.array(rows)

    def fit(self, questions: Sequence[Question], predictions: Sequence[Prediction]) -> "Reranker":
        """The weights of the grid that answer most of these questions; the smaller of equals."""
        judged = [self._judged(one, p) for one, p in zip(questions, predictions, strict=True)]
        right = [
            np.array([c == one.answers[0] for c in names])
            for one, (names, _, _) in zip(questions, judged, strict=True)
        ]

        def score(weights: tuple[float, float]) -> int:
            return sum(
                bool(r[int(np.argmax(own + features @ np.array(weights)))])
                for r, (_, own, features) in zip(right, judged, strict=True)
            )

        pairs = [(a, b) for a in GRID for b in GRID]
        return replace(self, weights=max(pairs, key=lambda w: (score(w), -sum(w))))

    def __call__(
        self, questions: Sequence[Question], predictions: Sequence[Prediction]
    ) -> list[Prediction]:
        """The predictions with their best candidates in another order."""
        found = []
        for one, p in zip(questions, predictions, strict=True):
            names, own, features = self._judged(one, p)
            order = np.argsort(-(own + features @ np.array(self.weights)), kind="stable")
            every = [p, *p.alternatives]
            first, *rest = [every[i] for i in order] + every[len(names) :]
            found.append(replace(first, input=p.input, alternatives=rest))
        return found

    def _judged(
        self, one: Question, p: Prediction
    ) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
        """The N best, their log-probabilities by the reader and by both language models."""
        best = [q for q in (p, *p.alternatives)[: self.best] if q.score is not None] or [p]
        names = [q.output for q in best]
        own = np.array([0.0 if q.score is None else q.score for q in best])
        return names, own, self.features(one, names)
