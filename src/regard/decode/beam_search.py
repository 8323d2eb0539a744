"""A beam search of some sentences as a value that goes on step by step, for `Beam`.

Each sentence has a number that stays its own and a step at which it began, so that others may join
a search that is under way (see `running`); none of them can see another.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import rows_of
from regard.attention.mask import take
from regard.decode.coverage import Covered
from regard.decode.ended_hypotheses import Alive, Ended
from regard.decode.history import History
from regard.decode.hypothesis import Hypothesis
from regard.decode.program.in_c import InC
from regard.decode.program.search_in_c import StoppingRule, normalizers
from regard.decode.rules.forced_words import Must
from regard.decode.search_batch import IMPOSSIBLE, SearchBatch, SoFar, forced, within_vocabulary
from regard.decode.top import leading, log_probabilities, top
from regard.protocols import EOS, PAD, Decoding

if TYPE_CHECKING:
    from regard.decode.beam import Beam

__all__ = ["BeamSearch"]


class BeamSearch:
    """The beams of some sentences between two steps.

    Args:
        beam: whose settings count.
        request: the sentences.
        first: their numbers are `first`, `first` + 1, …
    """

    def __init__(self, beam: "Beam", request: SearchBatch, first: int = 0) -> None:
        self.beam, self.request = beam, request
        self.decoding = request.decoding
        self.tokens, self.totals = request.begin()
        self.rows = list(range(first, first + len(self.tokens)))
        self.history = History()
        self.active = torch.arange(len(self.tokens), device=self.tokens.device)
        each = zip(self.rows, request.limits, strict=True)
        self.books = {n: Ended(beam, n, limit, request.gain) for n, limit in each}
        self.at = -1  # the last step, counted from 0
        self._covered = Covered.of(request) if beam.coverage_penalty else None
        wanted = request.force_words
        self._must = None if wanted is None else Must(wanted, beam.beam_size, request.limits)
        self._read = self.tokens[..., None][..., :0]  # (n, width, t), kept for rules alone
        self._parents, self._width = self.tokens, 1
        self._alive: Alive

    def steps(self, most: int) -> list[int]:
        """As `step`, or up to `most` steps in C, until a sentence is finished."""
        model, beam = self.request.in_c(self.at + 1, most), self.beam
        plain = self._covered is None and not beam.diversity_rate
        if model is None or not plain or self.tokens.shape[1] != beam.beam_size:
            return self.step()
        books = [self.books[number] for number in self.rows]
        limits = [book.limit for book in books]
        rule = StoppingRule(
            False,
            beam.beam_size,
            beam.min_length - 1,
            limits,
            normalizers(beam.penalty, beam.length_penalty, max(limits)),  # some joined later
            books[0].wanted,
            books[0].enough,
            beam.bound == "now",
            [[end.score for end in book.ended] for book in books],
        )
        made = model.search(self.tokens, self.decoding, self.totals, rule, most)
        if made is None:
            return self.step()
        first, self.decoding = self.at + 1, made.state
        for backs, ids, sums in zip(*(x.numpy() for x in made[:3]), strict=True):
            self.at += 1
            self._alive = Alive(backs, ids, sums, None)
            self.history.append(self.rows, ids, backs, sums)
        ended = (made.end_parents >= 0).nonzero(as_tuple=True)
        found = (x.tolist() for x in (*ended[:2], made.end_parents[ended], made.end_totals[ended]))
        for step, row, parent, total in zip(*found, strict=True):
            self.books[self.rows[row]].end(first + step, parent, total, 0.0)
        return self._moved(*(x[-1] for x in made[:3]))

    def step(self) -> list[int]:
        """Go one step; give the rows of those sentences that are not finished, for `go_on`."""
        self.at += 1
        watching = nullcontext() if self._covered is None else self._covered.watching()
        with rows_of(example=self.active), watching:
            best, width = self._continuations()
        ended = best.tokens == EOS
        keys = best.keys.masked_fill(ended, -math.inf)
        pick = keys.sort(dim=1, descending=True, stable=True).indices[:, :width]
        totals, tokens, parents = (x.gather(1, pick) for x in best[:3])  # (n, width)
        totals = totals.masked_fill(tokens == EOS, -math.inf)  # too few that do not end
        bonus = None if self._covered is None else self._covered.look(self.beam.coverage_penalty)
        backs, ids, sums = (x.cpu().numpy() for x in (parents, tokens, totals))
        self._alive = Alive(backs, ids, sums, bonus)
        self.history.append(self.rows, self._alive.tokens, self._alive.parents, self._alive.totals)
        self._end(best, ended, bonus)
        return self._moved(parents, tokens, totals)

    def _moved(self, parents: Tensor, tokens: Tensor, totals: Tensor) -> list[int]:
        """Keep what a step gave (n, width); the rows of those sentences that are not finished."""
        self._width = self.tokens.shape[1]
        self._parents, self.tokens, self.totals = parents, tokens, totals
        likeliest = self._alive.totals.max(1).tolist()
        return [
            row
            for row, (sentence, most) in enumerate(zip(self.rows, likeliest, strict=True))
            if not self.books[sentence].closed(self.at, most, self._alive, row)
        ]

    def go_on(self, keep: list[int]) -> None:
        """Leave all rows but these, and re-order the hypotheses for the next step."""
        parents = self._parents
        moved = parents.shape[1] != self._width or bool(
            (self._alive.parents[keep] != np.arange(self._width)).any()
        )
        if len(keep) < len(self.rows):
            self.leave(keep)
            parents = parents[keep]
        if moved:
            self.decoding = self.decoding.select(parents)
        if self.request.rules or self._must is not None:
            self._read = torch.cat([take(self._read, parents), self.tokens[..., None]], -1)
        if self._covered is not None:
            self._covered.select(parents)

    def leave(self, keep: list[int]) -> None:
        """Leave all rows but these."""
        index = torch.tensor(keep, dtype=torch.int64, device=self.tokens.device)
        self.decoding, self.active = self.decoding.rows(index), self.active[index]
        self.tokens, self.totals = self.tokens[index], self.totals[index]
        self.rows = [self.rows[row] for row in keep]
        self._read = self._read[index]
        if self._covered is not None:
            self._covered.rows(index)

    def widen(self) -> None:
        """Pad each sentence to `beam_size` slots before the first step; extra ones score -inf."""
        if self.tokens.shape[1] < self.beam.beam_size:
            short = self.beam.beam_size - self.tokens.shape[1]
            self.tokens = self.tokens.repeat(1, 1 + short)
            self.totals = F.pad(self.totals, (0, short), value=-math.inf)
            self.decoding = self.decoding.select(torch.zeros_like(self.tokens))
            self._read = self.tokens[..., None][..., :0]

    def join(self, decoding: Decoding, other: "BeamSearch") -> None:
        """Take in the sentences of a search that has not begun, with their numbers.

        Args:
            decoding: of the sentences of both, those of `other` behind.
            other: with as many slots, see `widen`.
        """
        self.decoding = decoding
        self.tokens = torch.cat([self.tokens, other.tokens])
        self.totals = torch.cat([self.totals, other.totals])
        self.rows = [*self.rows, *other.rows]
        self.active = torch.cat([self.active, other.active])
        new = self._read.new_full((*other.tokens.shape, self._read.shape[-1]), PAD)
        self._read = torch.cat([self._read, new])
        for number, book in other.books.items():
            book.start = self.at + 1
            self.books[number] = book

    def forget(self, numbers: Sequence[int]) -> None:
        """Let go of what is known of sentences that have left."""
        for number in numbers:
            del self.books[number]
        first = min((book.start for book in self.books.values()), default=self.at + 1)
        self.history.forget(first)
        if self._read.shape[-1]:
            self._read = self._read[..., max(0, self._read.shape[-1] - (self.at + 1 - first)) :]

    def best(self, sentence: int) -> list[Hypothesis]:
        """The hypotheses of a sentence that is finished, best first."""
        return [*map(self.history.trace, self.books[sentence].best())]

    def so_far(self, keep: Sequence[int]) -> SoFar:
        """What is found after a step in which these rows were not finished."""
        rows = {self.rows[row]: row for row in keep}
        books = [*self.books.values()]
        return partial(_so_far, books, self.history, self.at, self._alive, rows)

    def _continuations(self) -> tuple["_Best", int]:
        """The best continuations of every sentence, and how many of them may go on."""
        request, must, size = self.request, self._must, self.beam.beam_size
        model, diversity = request.model, self.beam.diversity_rate
        early = self._early()
        first = EOS + 1 if early is True else EOS  # PAD and BOS lie below
        start = forced(request, self.at, self.active)
        if start is None and must is None and not request.rules:
            count = 2 * size + isinstance(early, Tensor)
            if isinstance(model, InC):
                gains, ids, self.decoding = model.leading(self.tokens, self.decoding, first, count)
            else:
                logits, self.decoding = model.step(self.tokens, self.decoding)
                gains, ids = leading(logits, first, count, model.normalized)
            if isinstance(early, Tensor):
                gains, ids = _without_end(gains, ids, early, 2 * size)
            return _best(gains, ids, self.totals, 2 * size, diversity), size
        logits, self.decoding = model.step(self.tokens, self.decoding)
        if start is not None:
            within_vocabulary(start, logits.shape[-1])
        scores = log_probabilities(logits, model.normalized)
        free = request.ruled(scores, self._read, self.active)
        free = free if must is None else must.hold(free, self._read, self.active)
        if isinstance(early, Tensor):
            end = torch.arange(free.shape[-1], device=free.device) == EOS
            free = free.masked_fill(early & end, -math.inf)
        gains, places = top(free[..., first:], min(2 * size, free.shape[-1] - first))
        best = _best(gains, places + first, self.totals, 2 * size, diversity)
        if must is not None:
            shared = must.share(best[:3], free, self.totals, self._read, self.active)
            best = _Best(*shared, keys=shared[0])
        if start is None:
            return best, size
        width = 1 if bool((start != PAD).all()) else size
        return _force(best, start, scores, self.totals), width

    def _early(self) -> Tensor | bool:
        """Which sentences, (n, 1, 1), may not end yet; a bool where all or none of them may."""
        least = self.beam.min_length
        each = [self.at + 1 - self.books[number].start < least for number in self.rows]
        if all(each) or not any(each):
            return all(each)
        return torch.tensor(each, device=self.tokens.device)[:, None, None]

    def _end(self, best: "_Best", ended: Tensor, bonus: list[list[float]] | None) -> None:
        """Enter the hypotheses that ended among the best `beam_size`."""
        at = ended[:, : self.beam.beam_size].nonzero(as_tuple=True)
        found = (x.tolist() for x in (at[0], best.parents[at], best.totals[at]))
        for row, parent, total in zip(*found, strict=True):
            extra = 0.0 if bonus is None else bonus[row][parent]
            self.books[self.rows[row]].end(self.at, parent, total, extra)


def _so_far(
    books: Sequence["Ended"],
    history: History,
    step: int,
    alive: Alive,
    rows: Mapping[int, int],
) -> list[list[Hypothesis]]:
    """Each sentence's best after a step, given the rows of those that go on."""
    found = [
        book.so_far(step, alive, rows[book.sentence]) if book.sentence in rows else book.best()
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
    if each.shape[1] == 1 and not diversity:  # of one slot, they are in their order
        sums = each[:, 0, :count]
        tokens = ids[:, 0, :count]
        return _Best(sums, tokens, torch.zeros_like(tokens), sums)
    keys = each
    if diversity and len(each[0]) > 1:
        keys = each - diversity * torch.arange(each.shape[-1], device=each.device)
    # Stable: among equals the first hypothesis's first, as in native/search.c.
    ranked = keys.flatten(1).sort(dim=1, descending=True, stable=True)
    chosen, place = (x[:, :count] for x in ranked)  # (n, count)
    sums = chosen if keys is each else each.flatten(1).gather(1, place)
    tokens = ids.flatten(1).gather(1, place)
    return _Best(sums, tokens, place // ids.shape[-1], chosen)


def _without_end(values: Tensor, ids: Tensor, early: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best `count` of one more, without EOS for sentences that may not end yet."""
    values = values.masked_fill(early & (ids == EOS), -math.inf)
    values, order = values.sort(stable=True, dim=-1, descending=True)
    return values[..., :count], ids.gather(-1, order[..., :count])


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
