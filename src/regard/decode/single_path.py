"""One token a hypothesis and no re-ordering: what greedy decoding and sampling share."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from regard.attention import rows_of
from regard.decode.decoder import Decoder
from regard.decode.history import End, History
from regard.decode.hypothesis import Hypothesis
from regard.decode.search_batch import (
    IMPOSSIBLE,
    SearchBatch,
    SoFar,
    forced,
    waited_for,
    within_vocabulary,
)
from regard.decode.top import log_probabilities
from regard.errors import RequestError
from regard.protocols import EOS, PAD

__all__ = ["walk"]

Choose = Callable[[Tensor, int, Tensor], Tensor]


def walk(decoder: Decoder, request: SearchBatch, choose: Choose, width: int = 1) -> Iterator[SoFar]:
    """Follow `width` hypotheses a sentence to their ends; those that the limit cut come last.

    Args:
        decoder: whose limits and scores count.
        request: the batch.
        width: how many hypotheses a sentence.
        choose: from log-probabilities (n, width, V) of the ids that are allowed, the step, and
            the sentences (n,) still in the batch: which are chosen, (n, width).
    """
    if request.force_words is not None:
        raise RequestError("force_words: only a beam can be asked for words; say decode.name=beam")
    model, decoding = request.model, request.decoding
    tokens, totals = request.begin()
    read = tokens.new_empty(len(tokens), width, 0)
    history, rows = History(), list(range(len(tokens)))
    active = torch.arange(len(tokens), device=tokens.device)
    found: list[dict[int, Hypothesis]] = [{} for _ in rows]
    batch = waited_for()
    for step in range(max(request.limits)):
        with rows_of(example=active):
            logits, decoding = model.step(tokens, decoding)
        scores = log_probabilities(logits, model.normalized)
        if step == 0 and width > 1:
            decoding = decoding.select(tokens.new_zeros(len(tokens), width))
            scores = scores.expand(-1, width, -1)
        free = request.ruled(scores, read, active)
        first = EOS + 1 if step + 1 < decoder.min_length else EOS  # PAD and BOS lie below
        tokens = choose(free[..., first:].clamp(min=IMPOSSIBLE), step, active) + first
        gained = free.gather(-1, tokens[..., None]).squeeze(-1)
        start = forced(request, step, active)
        if start is not None:
            within_vocabulary(start, scores.shape[-1])
            tokens = torch.where(start != PAD, start, tokens)
            own = scores.gather(-1, tokens[..., None]).squeeze(-1).clamp(min=IMPOSSIBLE)
            gained = torch.where(start != PAD, own, gained)
        totals = totals + gained.to(totals.dtype)
        ids, sums = tokens.tolist(), totals.tolist()
        parents = [[0] * width] * len(rows) if step == 0 else [list(range(width))] * len(rows)
        history.append(rows, ids, parents, sums)
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
        if len(keep) < len(rows):
            index = torch.tensor(keep, device=tokens.device)
            decoding, active = decoding.rows(index), active[index]
            tokens, totals, rows = tokens[index], totals[index], [rows[row] for row in keep]
            read = read[index]
        if request.rules:
            read = torch.cat([read, tokens[..., None]], -1)


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
