"""A beam search of some sentences as a value that goes on step by step, for `Beam`.

Each sentence has a number that stays its own and a step at which it began, so that others may join
a search that is under way (see `running`); none of them can see another.
"""

import math
from bisect import insort
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.attention import rows_of
from regard.attention.mask import take
from regard.decode.coverage import Covered
from regard.decode.history import End, History
from regard.decode.hypothesis import Hypothesis
from regard.decode.must import Must
from regard.decode.panels import Panels
from regard.decode.search import IMPOSSIBLE, Request, SoFar, forced, within_vocabulary
from regard.decode.top import leading, log_probabilities, top
from regard.protocols import EOS, PAD

if TYPE_CHECKING:
    from regard.decode.beam import Beam

__all__ = ["BeamSearch"]


class BeamSearch:
    """The beams of some sentences between two steps.

    Args:
        beam: whose settings count.
        request: the sentences; they get the numbers 0, 1, …
    """

    def __init__(self, beam: "Beam", request: Request) -> None:
        self.beam, self.request = beam, request
        self.decoding = request.decoding
        self.tokens, self.totals = request.begin()
        self.rows = list(range(len(self.tokens)))
        self.history = History()
        self.active = torch.arange(len(self.tokens), device=self.tokens.device)
        self.books = {n: _Book(beam, n, 0, limit, request.gain) for n, limit in _numbered(request)}
        self.at = -1  # the last step, counted from 0
        self._covered = Covered.of(request) if beam.coverage_penalty else None
        wanted = request.force_words
        self._must = None if wanted is None else Must(wanted, beam.beam_size, request.limits)
        self._read = self.tokens[..., None][..., :0]  # (n, width, t), kept for rules alone
        self._alive: list[_Alive] = []
        self._parents, self._width = self.tokens, 1

    def step(self) -> list[int]:
        """Go one step; give the rows of those sentences that are not finished, for `go_on`."""
        self.at += 1
        watching = nullcontext() if self._covered is None else self._covered.watching()
        with rows_of(example=self.active), watching:
            best, width = self._continuations()
        ended = best.tokens == EOS
        keys = best.keys.masked_fill(ended, -math.inf)
        pick = keys.topk(min(width, ended.shape[1])).indices
        totals, tokens, parents = (x.gather(1, pick) for x in best[:3])  # (n, width)
        totals = totals.masked_fill(tokens == EOS, -math.inf)  # too few that do not end
        sums, ids, backs = totals.tolist(), tokens.tolist(), parents.tolist()
        self.history.append(self.rows, ids, backs, sums)
        bonus = None if self._covered is None else self._covered.look(self.beam.coverage_penalty)
        extra = [None] * len(backs) if bonus is None else bonus
        self._end(best, ended, extra)
        self._alive = [_Alive(*own) for own in zip(backs, ids, sums, extra, strict=True)]
        self._width = self.tokens.shape[1]
        self._parents, self.tokens, self.totals = parents, tokens, totals
        return [
            row
            for row, (sentence, alive) in enumerate(zip(self.rows, self._alive, strict=True))
            if not self.books[sentence].closed(self.at, alive)
        ]

    def go_on(self, keep: list[int]) -> None:
        """Leave all rows but these, and re-order the hypotheses for the next step."""
        parents, same = self._parents, [*range(self._width)]
        moved = any(self._alive[row].parents != same for row in keep)
        if len(keep) < len(self.rows):
            index = torch.tensor(keep, device=self.tokens.device)
            self.decoding, self.active = self.decoding.rows(index), self.active[index]
            self.tokens, self.totals, parents = (
                x[index] for x in (self.tokens, self.totals, parents)
            )
            self.rows = [self.rows[row] for row in keep]
            self._read = self._read[index]
            if self._covered is not None:
                self._covered.rows(index)
        if moved:
            self.decoding = self.decoding.select(parents)
        if self.request.rules or self._must is not None:
            self._read = torch.cat([take(self._read, parents), self.tokens[..., None]], -1)
        if self._covered is not None:
            self._covered.select(parents)

    def best(self, sentence: int) -> list[Hypothesis]:
        """The hypotheses of a sentence that is finished, best first."""
        return [*map(self.history.trace, self.books[sentence].best())]

    def so_far(self, keep: Sequence[int]) -> SoFar:
        """What is found after a step in which these rows were not finished."""
        alive = {self.rows[row]: self._alive[row] for row in keep}
        return partial(_so_far, [*self.books.values()], self.history, self.at, alive)

    def _continuations(self) -> tuple["_Best", int]:
        """The best continuations of every sentence, and how many of them may go on."""
        request, must, size = self.request, self._must, self.beam.beam_size
        model, diversity = request.model, self.beam.diversity_rate
        first = EOS + 1 if self.at + 1 < self.beam.min_length else EOS  # PAD and BOS lie below
        start = forced(request, self.at, self.active)
        if start is None and must is None and not request.rules:
            if isinstance(model, Panels):
                *found, self.decoding = model.leading(self.tokens, self.decoding, first, 2 * size)
            else:
                logits, self.decoding = model.step(self.tokens, self.decoding)
                found = [*leading(logits, first, 2 * size, model.normalized)]
            return _best(*found, self.totals, 2 * size, diversity), size
        logits, self.decoding = model.step(self.tokens, self.decoding)
        if start is not None:
            within_vocabulary(start, logits.shape[-1])
        scores = log_probabilities(logits, model.normalized)
        free = request.ruled(scores, self._read, self.active)
        free = free if must is None else must.hold(free, self._read, self.active)
        gains, places = top(free[..., first:], min(2 * size, free.shape[-1] - first))
        best = _best(gains, places + first, self.totals, 2 * size, diversity)
        if must is not None:
            shared = must.share(best[:3], free, self.totals, self._read, self.active)
            best = _Best(*shared, keys=shared[0])
        if start is None:
            return best, size
        width = 1 if bool((start != PAD).all()) else size
        return _force(best, start, scores, self.totals), width

    def _end(self, best: "_Best", ended: Tensor, extra: Sequence[Any]) -> None:
        """Enter the hypotheses that ended among the best `beam_size`."""
        places = ended[:, : self.beam.beam_size].nonzero().tolist()
        if not places:
            return
        parents, totals = best.parents.tolist(), best.totals.tolist()
        for row, place in places:
            parent = parents[row][place]
            bonus = 0.0 if extra[row] is None else extra[row][parent]
            self.books[self.rows[row]].end(self.at, parent, totals[row][place], bonus)


def _numbered(request: Request) -> Sequence[tuple[int, int]]:
    return [*enumerate(request.limits)]


class _Alive(NamedTuple):
    """The hypotheses of a sentence that go on after a step."""

    parents: list[int]
    tokens: list[int]
    totals: list[float]
    extra: list[float] | None
    """The coverage penalty of each old slot."""


def _so_far(
    books: Sequence["_Book"], history: History, step: int, alive: Mapping[int, _Alive]
) -> list[list[Hypothesis]]:
    """Each sentence's best after a step, given what is alive in those that go on."""
    found = [
        book.so_far(step, alive[book.sentence]) if book.sentence in alive else book.best()
        for book in books
    ]
    return [[history.trace(end) for end in ends] for ends in found]


class _Best(NamedTuple):
    """Continuations of every sentence, best first: (n, count) each."""

    totals: Tensor
    tokens: Tensor
    parents: Tensor
    keys: Tensor
    """What they are chosen by: `totals`, less the penalty of `diversity_rate`."""


def _best(values: Tensor, ids: Tensor, totals: Tensor, count: int, diversity: float) -> _Best:
    """Give the `count` best continuations; they are among the best of each slot.

    Shapes:
        values and ids of the best of each slot (n, width, m), totals (n, width)
    """
    each = values.to(totals.dtype) + totals[..., None]
    keys = each
    if diversity and len(each[0]) > 1:
        keys = each - diversity * torch.arange(each.shape[-1], device=each.device)
    chosen, place = keys.flatten(1).topk(min(count, each[0].numel()))  # (n, count)
    sums = chosen if keys is each else each.flatten(1).gather(1, place)
    tokens = ids.flatten(1).gather(1, place)
    return _Best(sums, tokens, place // ids.shape[-1], chosen)


def _force(best: _Best, start: Tensor, scores: Tensor, totals: Tensor) -> _Best:
    """Leave sentences with a forced token, `start` (n, 1), that one continuation of slot 0."""
    gained = scores[:, 0].gather(1, start).clamp(min=IMPOSSIBLE)
    only = torch.full_like(best.totals, -math.inf)
    only[:, :1] = totals[:, :1] + gained
    free = start == PAD
    return _Best(
        torch.where(free, best.totals, only),
        torch.where(free, best.tokens, start),
        torch.where(free, best.parents, 0),
        torch.where(free, best.keys, only),
    )


class _Book:
    """The hypotheses of one sentence that have ended, best first.

    Args:
        start: the step at which the sentence began.
        limit: the most tokens.
        gain: what rules may add to the score of a token.
    """

    def __init__(
        self, beam: "Beam", sentence: int, start: int, limit: int, gain: float = 0.0
    ) -> None:
        self.beam, self.sentence, self.start = beam, sentence, start
        self.limit, self.gain = limit, gain
        self.wanted = beam.n_best if beam.bound == "limit" else beam.beam_size
        self.ended: list[End] = []
        self.cut: list[End] = []
        patience = 1.0 if beam.beam_size == 1 else beam.patience
        self.enough = math.inf if patience is None else patience * beam.beam_size

    def end(self, step: int, parent: int, total: float, extra: float) -> None:
        """Enter a hypothesis that ended in EOS; among equals the earlier stays before."""
        if total != -math.inf:
            score = total / self.beam.normalizer(step - self.start + 1) + extra
            end = End(self.sentence, step, parent, EOS, total, score)
            insort(self.ended, end, key=lambda e: -e.score)

    def closed(self, step: int, alive: _Alive) -> bool:
        """Whether the sentence is finished, given the hypotheses still alive."""
        length = step - self.start + 1
        if length >= self.limit:
            self.cut = self._cut(step, alive)
            return True
        best = max(alive.totals)
        if best == -math.inf or len(self.ended) >= self.enough:
            return True
        if len(self.ended) < self.wanted:
            return False
        return self._hope(best, length) <= self.ended[self.wanted - 1].score

    def _hope(self, best: float, length: int) -> float:
        """The score that a hypothesis of this length may still have, the bound of the search."""
        if self.beam.bound == "now":
            return best / self.beam.normalizer(length)
        if not self.gain:
            return best / self.beam.normalizer(self.limit)
        # Each token but the last, EOS, may gain; the best length then lies anywhere.
        return max(
            (best + self.gain * max(size - length - 1, 0)) / self.beam.normalizer(size)
            for size in range(length + 1, self.limit + 1)
        )

    def so_far(self, step: int, alive: _Alive) -> list[End]:
        """Up to `n_best` of those that have ended and those alive, ranked as if all ended here."""
        each = [*self.ended, *self._cut(step, alive)]
        return sorted(each, key=lambda e: -e.score)[: self.beam.n_best]

    def _cut(self, step: int, alive: _Alive) -> list[End]:
        """The hypotheses alive as ends, best first."""
        score = self.beam.normalizer(step - self.start + 1)
        parents, tokens, totals, extra = alive
        gains = [0.0 if extra is None else extra[parent] for parent in parents]
        cut = [
            End(self.sentence, step, parent, token, total, total / score + gain)
            for parent, token, total, gain in zip(parents, tokens, totals, gains, strict=True)
            if total != -math.inf
        ]
        return sorted(cut, key=lambda e: -e.score)

    def best(self) -> list[End]:
        """Give up to `n_best` ends: those in EOS before those that the limit cut."""
        return (self.ended + self.cut)[: self.beam.n_best]
