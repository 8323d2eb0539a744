"""Beam search over a batch: sentences side by side, none of which can see another.

At each step every sentence's `beam_size` hypotheses are continued by all V tokens, and the best
2 * beam_size continuations are looked at: at most `beam_size` of them end, so as many that do not
can always go on. An EOS ends a hypothesis when it is among the best `beam_size`; ended ones go to
a list of their own and are ranked by log P(Y|X) / lp(Y). The search of a sentence stops when no
hypothesis alive can enter the best `n_best`, even if it lost no more probability and had the
largest lp within its limit:

    max over alive of log P / lp(limit)  <=  score of the n_best-th best that ended

(with what rules may add to each further token, where they raise scores) so that n_best = 1 is the
first of n_best = 5. Those that the limit cuts rank behind all that ended.
With `coverage_penalty` the score of a hypothesis gains a term that is never above 0 (Wu et al.,
eq. 14),

    cp(X; Y) = beta * sum over source positions i of log min(sum over steps t of p_ti, 1),

p_ti being what the decoder looks at (see `coverage.py`). `diversity_rate` takes gamma * rank from a
continuation's place among those of its own hypothesis while the beam is filled (Li et al. 2016).
Sources: Sutskever et al. 2014; Wu et al. 2016, section 7; `papers/translation.md`, section 12.
"""

import math
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard._recipe.old_names import DECODER, renaming
from regard.attention import rows_of
from regard.attention.mask import take
from regard.decode.coverage import Covered
from regard.decode.history import End, History
from regard.decode.hypothesis import Hypothesis
from regard.decode.must import Must
from regard.decode.search import IMPOSSIBLE, Decoder, Request, SoFar, check, forced
from regard.decode.top import leading, log_probabilities, top
from regard.decode.waiting import waited_for
from regard.protocols import EOS, PAD

__all__ = ["Beam"]

BOUNDS = ("limit", "now")


@renaming(DECODER)
@dataclass(frozen=True)
class Beam(Decoder):
    """Keep the `beam_size` likeliest beginnings at every step.

    A beam of 1 is greedy decoding: it stops at its first EOS.

    Args:
        beam_size: how many hypotheses are alive.
        n_best: how many are given back, best first; at most `beam_size`.
        patience: also stop when `patience * beam_size` hypotheses have ended (1 is the habit of
            fairseq; Kasai et al. 2022). None never stops early, which is exact and takes more
            steps.
        coverage_penalty: beta of the coverage penalty; 0 for none. Models with attention alone have
            it.
        diversity_rate: gamma of the penalty on a hypothesis's second, third, … continuation; with
            it the n best differ more.
        bound: what hypotheses alive may still become: "limit", the longest there can be, which is
            exact; or "now", as if they ended here, once `beam_size` have ended: the habit of
            Hugging Face, where `early_stopping` is false.
    """

    beam_size: int = 5
    n_best: int = 1
    patience: float | None = None
    coverage_penalty: float = 0.0
    diversity_rate: float = 0.0
    bound: str = "limit"

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        super().__post_init__()
        check(self.beam_size >= 1, "beam_size", "1 or more", self.beam_size)
        most = f"from 1 to beam_size, which is {self.beam_size}"
        check(1 <= self.n_best <= self.beam_size, "n_best", most, self.n_best)
        check(self.patience is None or self.patience >= 1, "patience", "1 or more", self.patience)
        for key in ("coverage_penalty", "diversity_rate"):
            check(getattr(self, key) >= 0, key, "a number from 0 up", getattr(self, key))
        check(self.bound in BOUNDS, "bound", " or ".join(BOUNDS), self.bound)

    def search(self, request: Request) -> Iterator[SoFar]:
        """Search all sentences of the batch at once."""
        covered = Covered.of(request) if self.coverage_penalty else None
        size = self.beam_size
        model, decoding = request.model, request.decoding
        tokens, totals = request.begin()
        history, rows = History(), list(range(len(tokens)))
        active = torch.arange(len(tokens), device=tokens.device)
        gain = request.gain
        batch = waited_for()
        books = [_Book(self, *own, gain) for own in enumerate(request.limits)]
        wanted = request.force_words
        must = None if wanted is None else Must(wanted, size, request.limits)
        read = tokens[..., None][..., :0]  # (n, width, t), kept for rules alone
        for step in range(max(request.limits)):
            watching = nullcontext() if covered is None else covered.watching()
            with rows_of(example=active), watching:
                logits, decoding = model.step(tokens, decoding)
            first = EOS + 1 if step + 1 < self.min_length else EOS  # PAD and BOS lie below
            start, width = forced(request, step, active, logits.shape[-1]), size
            plain = start is None and must is None and not request.rules
            if plain:
                found = leading(logits, first, 2 * size, model.normalized)
            else:
                scores = log_probabilities(logits, model.normalized)
                free = request.ruled(scores, read, active)
                free = free if must is None else must.hold(free, read, active)
                gains, places = top(free[..., first:], min(2 * size, free.shape[-1] - first))
                found = gains, places + first
            best = _best(*found, totals, 2 * size, self.diversity_rate)
            if must is not None:
                shared = must.share(best[:3], free, totals, read, active)
                best = _Best(*shared, keys=shared[0])
            if start is not None:
                best = _force(best, start, scores, totals)
                width = 1 if bool((start != PAD).all()) else width
            ended = best.tokens == EOS
            keys = best.keys.masked_fill(ended, -math.inf)
            pick = keys.topk(min(width, ended.shape[1])).indices
            totals, tokens, parents = (x.gather(1, pick) for x in best[:3])  # (n, width)
            totals = totals.masked_fill(tokens == EOS, -math.inf)  # too few that do not end
            sums, ids, backs = totals.tolist(), tokens.tolist(), parents.tolist()
            history.append(rows, ids, backs, sums)
            bonus = None if covered is None else covered.look(self.coverage_penalty)
            for row, place in ended[:, :size].nonzero().tolist():
                parent, total = int(best.parents[row, place]), float(best.totals[row, place])
                extra = 0.0 if bonus is None else bonus[row][parent]
                books[rows[row]].end(step, parent, EOS, total, extra)
            keep = [
                row
                for row, sentence in enumerate(rows)
                if not books[sentence].closed(
                    step, backs[row], ids[row], sums[row], None if bonus is None else bonus[row]
                )
            ]
            if batch is not None:
                keep = batch.kept(rows, keep, lambda own: [*map(history.trace, books[own].best())])
            alive = {
                rows[row]: (backs[row], ids[row], sums[row], bonus and bonus[row]) for row in keep
            }
            yield partial(_so_far, books, history, step, alive)
            if not keep:
                return
            if len(keep) < len(rows):
                index = torch.tensor(keep, device=tokens.device)
                decoding, active, parents = decoding.rows(index), active[index], parents[index]
                tokens, totals, rows = tokens[index], totals[index], [rows[row] for row in keep]
                read = read[index]
                if covered is not None:
                    covered.rows(index)
            same = list(range(logits.shape[1]))
            if any(backs[row] != same for row in keep):
                decoding = decoding.select(parents)
            if request.rules or must is not None:
                read = torch.cat([take(read, parents), tokens[..., None]], -1)
            if covered is not None:
                covered.select(parents)


def _so_far(
    books: Sequence["_Book"], history: History, step: int, alive: Mapping[int, tuple[Any, ...]]
) -> list[list[Hypothesis]]:
    """Each sentence's best after a step, given what is alive in those that go on."""
    found = [
        book.so_far(step, *alive[book.sentence]) if book.sentence in alive else book.best()
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
    """The hypotheses of one sentence that have ended, best first."""

    def __init__(self, beam: Beam, sentence: int, limit: int, gain: float = 0.0) -> None:
        self.beam, self.sentence, self.limit, self.gain = beam, sentence, limit, gain
        self.wanted = beam.n_best if beam.bound == "limit" else beam.beam_size
        self.ended: list[End] = []
        self.cut: list[End] = []
        patience = 1.0 if beam.beam_size == 1 else beam.patience
        self.enough = math.inf if patience is None else patience * beam.beam_size

    def end(self, step: int, parent: int, token: int, total: float, extra: float) -> None:
        """Enter a hypothesis that ended in EOS; among equals the earlier stays before."""
        if total != -math.inf:
            score = total / self.beam.normalizer(step + 1) + extra
            end = End(self.sentence, step, parent, token, total, score)
            insort(self.ended, end, key=lambda e: -e.score)

    def closed(
        self,
        step: int,
        parents: list[int],
        tokens: list[int],
        totals: list[float],
        extra: list[float] | None,
    ) -> bool:
        """Whether the sentence is finished, given the hypotheses still alive."""
        if step + 1 >= self.limit:
            self.cut = self._cut(step, parents, tokens, totals, extra)
            return True
        best = max(totals)
        if best == -math.inf or len(self.ended) >= self.enough:
            return True
        if len(self.ended) < self.wanted:
            return False
        return self._hope(best, step + 1) <= self.ended[self.wanted - 1].score

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

    def so_far(
        self,
        step: int,
        parents: list[int],
        tokens: list[int],
        totals: list[float],
        extra: list[float] | None,
    ) -> list[End]:
        """Up to `n_best` of those that have ended and those alive, ranked as if all ended here."""
        each = [*self.ended, *self._cut(step, parents, tokens, totals, extra)]
        return sorted(each, key=lambda e: -e.score)[: self.beam.n_best]

    def _cut(
        self,
        step: int,
        parents: list[int],
        tokens: list[int],
        totals: list[float],
        extra: list[float] | None,
    ) -> list[End]:
        """The hypotheses alive as ends, best first."""
        score = self.beam.normalizer(step + 1)
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
