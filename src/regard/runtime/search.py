"""Greedy decoding and beam search of one source in NumPy: what `decode.Greedy` and `Beam` find.

The rules are those of `decode.beam`: an EOS ends a hypothesis when it is among the best
`beam_size`; the search stops when no hypothesis alive can enter the best `n_best`.
"""

import math
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.errors import RegardError
from regard.runtime.operators import Array, log_softmax
from regard.runtime.penalties import PENALTIES, most_tokens
from regard.runtime.special_ids import EOS

__all__ = ["Rule", "SearchOutput", "SearchSettings", "Step", "best_outputs"]

Step = Callable[[int, Array, Array], Array]
"""From the number of a step, the token of each hypothesis and the one each goes on from, to the
scores (hypotheses, V) of the next tokens."""
Rule = Callable[[Array], Array]
"""From the tokens of each hypothesis (hypotheses, t) to those that may be next (hypotheses, V)."""


@dataclass(frozen=True)
class SearchSettings:
    """The settings of a decoder that a search without PyTorch has; see `decode.Beam`.

    `beam_size` 0 is greedy decoding.
    """

    beam_size: int = 5
    n_best: int = 1
    patience: float | None = None
    length_penalty: float = 1.0
    penalty: str = "power"
    max_ratio: float = 2.0
    max_extra: int = 10
    max_length: int | None = None
    min_length: int = 0

    def limit(self, source: int) -> int:
        """The most tokens, with EOS, for a source of `source` tokens with EOS."""
        most = most_tokens(source, self.max_ratio, self.max_extra, self.max_length)
        return max(most, self.min_length, 1)

    def normalizer(self, length: int) -> float:
        """What the log-probability of `length` tokens, with EOS, is divided by."""
        return PENALTIES[self.penalty](length, self.length_penalty)


class SearchOutput(NamedTuple):
    """An output: ids without BOS, its score, and the log-probability of each token."""

    tokens: list[int]
    score: float
    token_scores: list[float]


class _End(NamedTuple):
    step: int
    parent: int
    token: int
    total: float
    score: float


def best_outputs(
    first: Array,
    step: Step,
    limit: int,
    settings: SearchSettings,
    *,
    normalized: bool = False,
    rule: Rule | None = None,
) -> list[SearchOutput]:
    """Search the outputs for one source, best first.

    Args:
        first: scores (1, V) of the first token.
        step: gives those of the next tokens.
        limit: the most tokens.
        normalized: whether scores are log-probabilities already.
        rule: what outputs have to keep to.
    """
    search = _Search(settings, limit, rule)
    scores = first
    while True:
        parents = search.take(scores if normalized else log_softmax(scores))
        if parents is None:
            return search.found()
        scores = step(search.at + 1, search.tokens, parents)


class _Search:
    """The hypotheses of one source between two steps."""

    def __init__(self, settings: SearchSettings, limit: int, rule: Rule | None) -> None:
        self.settings, self.limit, self.rule = settings, limit, rule
        self.width = max(settings.beam_size, 1)
        self.tokens: Array = np.zeros(1, np.int64)
        self.totals: Array = np.zeros(1)
        self.read: Array = np.zeros((1, 0), np.int64)
        """The tokens of each hypothesis, kept for a rule alone."""
        self.at = -1
        self.ended: list[_End] = []
        self.cut: list[_End] = []
        self.steps: list[tuple[Array, Array, Array]] = []
        patience = 1.0 if self.width == 1 else settings.patience
        self.enough = math.inf if patience is None else patience * self.width

    def take(self, gains: Array) -> Array | None:
        """Go on by log-probabilities (hypotheses, V); None when the search is finished.

        Returns:
            of each hypothesis that goes on, the one that it continues.
        """
        self.at += 1
        if self.rule is not None:
            gains = np.where(self.rule(self.read), gains, -np.inf)
        first = EOS + 1 if self.at + 1 < self.settings.min_length else EOS
        totals, tokens, parents = self._best(gains[:, first:], first)
        for k in np.flatnonzero(tokens[: self.width] == EOS):
            self._end(int(parents[k]), float(totals[k]))
        on = np.flatnonzero(tokens != EOS)[: self.width]
        self.totals, self.tokens = totals[on], tokens[on]
        parents = parents[on]
        if self.rule is not None:
            self.read = np.concatenate([self.read[parents], self.tokens[:, None]], 1)
        self.steps.append((self.tokens, parents, self.totals))
        return None if self._closed(parents) else parents

    def _best(self, gains: Array, first: int) -> tuple[Array, Array, Array]:
        """The best 2 * width continuations: totals, tokens, and what they continue."""
        count = min(2 * self.width, gains.shape[1])
        places = np.argpartition(-gains, count - 1, axis=1)[:, :count]
        each = np.take_along_axis(gains, places, 1).astype(np.float64) + self.totals[:, None]
        flat = each.ravel()
        order = np.argsort(-flat, kind="stable")[:count]
        return flat[order], places.ravel()[order] + first, order // count

    def _end(self, parent: int, total: float) -> None:
        if total != -math.inf:
            score = total / self.settings.normalizer(self.at + 1)
            insort(self.ended, _End(self.at, parent, EOS, total, score), key=lambda e: -e.score)

    def _closed(self, parents: Array) -> bool:
        length, settings = self.at + 1, self.settings
        alive = self.totals != -math.inf
        if length >= self.limit:
            score = settings.normalizer(length)
            ends = (
                _End(self.at, int(parent), int(token), float(total), float(total) / score)
                for parent, token, total in zip(
                    parents[alive], self.tokens[alive], self.totals[alive], strict=True
                )
            )
            self.cut = sorted(ends, key=lambda e: -e.score)
            return True
        if not alive.any() or len(self.ended) >= self.enough:
            return True
        if len(self.ended) < settings.n_best:
            return False
        hope = float(self.totals.max()) / settings.normalizer(self.limit)
        return hope <= self.ended[settings.n_best - 1].score

    def found(self) -> list[SearchOutput]:
        """The best: those in EOS before those that the limit cut."""
        return [self._trace(end) for end in (self.ended + self.cut)[: self.settings.n_best]]

    def _trace(self, end: _End) -> SearchOutput:
        if math.isnan(end.total):
            raise RegardError(
                f"the model's scores became NaN within {end.step + 1} decoding steps; look for NaN"
                " in its weights"
            )
        tokens, totals, slot = [end.token], [end.total], end.parent
        for ids, parents, sums in reversed(self.steps[: end.step]):
            tokens.append(int(ids[slot]))
            totals.append(float(sums[slot]))
            slot = int(parents[slot])
        tokens.reverse()
        totals.reverse()
        each = [b - a for a, b in zip([0.0, *totals], totals, strict=False)]
        return SearchOutput(tokens, end.score, each)
