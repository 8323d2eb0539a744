"""One token a hypothesis and no re-ordering: what greedy decoding and sampling share."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from regard.attention import rows_of
from regard.decode.decoder import Decoder
from regard.decode.history import End, History, Rows
from regard.decode.hypothesis import Hypothesis
from regard.decode.program.in_c import InC
from regard.decode.program.search_in_c import StepsMade, StoppingRule
from regard.decode.search_batch import (
    IMPOSSIBLE,
    SearchBatch,
    SoFar,
    forced,
    waited_for,
    within_vocabulary,
)
from regard.decode.top import leading, log_probabilities
from regard.errors import RequestError
from regard.protocols import EOS, PAD

__all__ = ["walk"]

Choose = Callable[[Tensor, int, Tensor], Tensor]


def walk(
    decoder: Decoder,
    request: SearchBatch,
    choose: Choose,
    width: int = 1,
    *,
    greedy: bool = False,
) -> Iterator[SoFar]:
    """Follow `width` hypotheses a sentence to their ends; those that the limit cut come last.

    Args:
        decoder: whose limits and scores count.
        request: the batch.
        width: how many hypotheses a sentence.
        choose: from log-probabilities (n, width, V) of the ids that are allowed, the step, and
            the sentences (n,) still in the batch: which are chosen, (n, width).
        greedy: the likeliest are chosen, so C may take several steps at once.
    """
    if request.force_words is not None:
        raise RequestError("force_words: only a beam can be asked for words; say decode.name=beam")
    paths = _Paths(decoder, request, choose, width, greedy)
    found: list[dict[int, Hypothesis]] = [{} for _ in paths.rows]
    batch = waited_for()
    while True:
        parents, ids, sums = paths.go_on()
        history, step, rows = paths.history, paths.at, paths.rows
        keep = []
        alive: dict[int, list[End]] = {}
        for row, sentence in enumerate(rows):
            last = step + 1 >= request.limits[sentence]
            on = []
            for slot in range(width):
                if slot in found[sentence]:
                    continue
                parent, token, total = parents[row][slot], ids[row][slot], sums[row][slot]
                score = total / decoder.normalizer(step + 1)
                end = End(sentence, step, parent, token, total, score)
                if last or token == EOS:
                    found[sentence][slot] = history.trace(end)
                else:
                    on.append(end)
            if on:
                keep.append(row)
                alive[sentence] = on
        if batch is not None:
            keep = batch.kept(rows, keep, partial(_ranked, found, history, alive))
        yield partial(_so_far, found, history, alive)
        if not keep:
            return
        paths.leave(keep)


class _Paths:
    """The hypotheses of some sentences between two steps; for the arguments see `walk`."""

    def __init__(
        self, decoder: Decoder, request: SearchBatch, choose: Choose, width: int, greedy: bool
    ) -> None:
        self.decoder, self.request, self.choose, self.width = decoder, request, choose, width
        self.greedy, self.decoding = greedy, request.decoding
        self.tokens, self.totals = request.begin()
        self.rows = list(range(len(self.tokens)))
        self.history, self.at = History(), -1  # the last step, counted from 0
        self._active = torch.arange(len(self.tokens), device=self.tokens.device)
        self._read = self.tokens.new_empty(len(self.tokens), width, 0)  # kept for rules alone

    def go_on(self) -> tuple[Rows, Rows, Rows]:
        """Take a step, or several in C until a sentence ends; give the last one's rows.

        They are what `History` keeps: the old slot, the token and the log-probability so far of
        each hypothesis, (n, width) each.
        """
        made = self._in_c() if self.greedy else None
        if made is None:
            return self._step()
        for parents, tokens, totals in zip(*(x.numpy() for x in made[:3]), strict=True):
            self.at += 1
            self.history.append(self.rows, tokens, parents, totals)
        self.tokens, self.totals, self.decoding = made.tokens[-1], made.totals[-1], made.state
        return parents.tolist(), tokens.tolist(), totals.tolist()

    def leave(self, keep: list[int]) -> None:
        """Leave all rows but these."""
        if len(keep) < len(self.rows):
            index = torch.tensor(keep, device=self.tokens.device)
            self.decoding, self._active = self.decoding.rows(index), self._active[index]
            self.tokens, self.totals = self.tokens[index], self.totals[index]
            self.rows = [self.rows[row] for row in keep]
            self._read = self._read[index]
        if self.request.rules:
            self._read = torch.cat([self._read, self.tokens[..., None]], -1)

    def _in_c(self) -> StepsMade | None:
        """Steps in C; None where they are not for it."""
        request, decoder = self.request, self.decoder
        model = request.in_c(self.at + 1, request.at_once)
        if model is None:
            return None
        limits = [request.limits[sentence] for sentence in self.rows]
        rule = StoppingRule.greedy_one(decoder.min_length - 1, limits)
        return model.search(self.tokens, self.decoding, self.totals, rule, request.at_once)

    def _step(self) -> tuple[Rows, Rows, Rows]:
        """One step, any model's and with any choice."""
        self.at += 1
        request, width = self.request, self.width
        early = self.at + 1 < self.decoder.min_length
        first = EOS + 1 if early else EOS  # PAD and BOS lie below
        start = forced(request, self.at, self._active)
        if self.greedy and start is None and not request.rules:
            gained, tokens = self._likeliest(first)
        else:
            gained, tokens = self._chosen(first, start)
        self.tokens, self.totals = tokens, self.totals + gained.to(self.totals.dtype)
        slots = [0] * width if self.at == 0 else list(range(width))
        made = [slots] * len(self.rows), tokens.tolist(), self.totals.tolist()
        parents, ids, sums = made
        self.history.append(self.rows, ids, parents, sums)
        return made

    def _likeliest(self, first: int) -> tuple[Tensor, Tensor]:
        """The likeliest tokens from this id up, and their log-probabilities."""
        model, args = self.request.model, (self.tokens, self.decoding)
        with rows_of(example=self._active):
            if isinstance(model, InC):
                gained, tokens, self.decoding = model.leading(*args, first, 1)
            else:
                logits, self.decoding = model.step(*args)
                gained, tokens = leading(logits, first, 1, model.normalized)
        return gained[..., 0], tokens[..., 0]

    def _chosen(self, first: int, start: Tensor | None) -> tuple[Tensor, Tensor]:
        """The tokens that `choose` takes or `start` forces, and their log-probabilities."""
        request, width = self.request, self.width
        with rows_of(example=self._active):
            logits, self.decoding = request.model.step(self.tokens, self.decoding)
        scores = log_probabilities(logits, request.model.normalized)
        if self.at == 0 and width > 1:
            self.decoding = self.decoding.select(self.tokens.new_zeros(len(self.rows), width))
            scores = scores.expand(-1, width, -1)
        free = request.ruled(scores, self._read, self._active)
        allowed = free[..., first:].clamp(min=IMPOSSIBLE)
        tokens = self.choose(allowed, self.at, self._active) + first
        gained = free.gather(-1, tokens[..., None]).squeeze(-1)
        if start is not None:
            within_vocabulary(start, scores.shape[-1])
            tokens = torch.where(start != PAD, start, tokens)
            own = scores.gather(-1, tokens[..., None]).squeeze(-1).clamp(min=IMPOSSIBLE)
            gained = torch.where(start != PAD, own, gained)
        return gained, tokens


def _so_far(
    found: Sequence[Mapping[int, Hypothesis]], history: History, alive: Mapping[int, Sequence[End]]
) -> list[list[Hypothesis]]:
    """Each sentence's hypotheses."""
    return [_ranked(found, history, alive, sentence) for sentence in range(len(found))]


def _ranked(
    found: Sequence[Mapping[int, Hypothesis]],
    history: History,
    alive: Mapping[int, Sequence[End]],
    sentence: int,
) -> list[Hypothesis]:
    """A sentence's hypotheses: what has ended, and what is alive ranked as if it ended here."""
    on = [history.trace(end) for end in alive.get(sentence, ())]
    possible = [h for h in (*found[sentence].values(), *on) if h.log_prob != -math.inf]
    cut_last = not on  # by its length limit; what is alive may still become the best
    return sorted(possible, key=lambda h: (cut_last and not h.finished, -h.score))
