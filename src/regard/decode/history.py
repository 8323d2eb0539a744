"""Back-pointers: who continued whom, so that no token history is copied while decoding."""

import math
from typing import Any, NamedTuple

import torch

from regard.decode.hypothesis import Hypothesis
from regard.errors import RegardError

__all__ = ["End", "History", "Rows"]

Rows = Any
"""(n, width): an array, or lists of lists."""


class End(NamedTuple):
    """Where a hypothesis ended: at `step`, with the `token` that old slot `parent` gave there."""

    sentence: int
    step: int
    parent: int
    token: int
    total: float
    score: float


class _Step(NamedTuple):
    """One step: where each sentence's row is, and the rows (n, width) that `append` describes."""

    where: dict[int, int]
    tokens: Rows
    parents: Rows
    totals: Rows


class History:
    """The steps of one decoding, each `(n, width)`, and the walk back through them.

    Sentences leave the batch when they are finished, so a sentence's row differs from step to step:
    `rows` of a step lists the sentences still there, in their order.
    """

    def __init__(self) -> None:
        """Start with no step."""
        self._steps: list[_Step] = []
        self._first = 0  # of the steps that are kept
        self._rows: list[int] = []
        self._where: dict[int, int] = {}

    def append(
        self,
        rows: list[int],
        tokens: Rows,
        parents: Rows,
        totals: Rows,
    ) -> None:
        """Keep for every new slot its token, the slot it continued, its log-probability so far.

        Arrays of numbers cost the collector of garbage nothing, lists of lists do.
        """
        if rows is not self._rows:
            self._rows, self._where = rows, {sentence: row for row, sentence in enumerate(rows)}
        self._steps.append(_Step(self._where, tokens, parents, totals))

    def forget(self, before: int) -> None:
        """Let go of the steps before this one."""
        if before > self._first:
            del self._steps[: before - self._first]
            self._first = before

    def trace(self, end: End) -> Hypothesis:
        """Walk back from `end` to the first token.

        Raises:
            RegardError: when the model's scores were not numbers.
        """
        if math.isnan(end.total):
            raise RegardError(
                f"the model's scores became NaN within {end.step + 1} decoding steps; look for NaN"
                " in its weights, or decode in float32"
            )
        last = end.step - self._first
        slot, row = end.parent, self._steps[last].where[end.sentence]
        tokens, totals, trail = [end.token], [end.total], [(row, slot)]
        for where, ids, parents, sums in reversed(self._steps[:last]):
            if end.sentence not in where:
                break  # it came later
            row = where[end.sentence]
            tokens.append(int(ids[row][slot]))
            totals.append(float(sums[row][slot]))
            slot = int(parents[row][slot])
            trail.append((row, slot))
        for way in (tokens, totals, trail):
            way.reverse()
        each = [b - a for a, b in zip([0.0, *totals], totals, strict=False)]
        with torch.inference_mode(False):
            found = torch.tensor(trail, dtype=torch.int64)
        return Hypothesis(tokens, end.score, end.total, each, found)
