"""One run of `generate`: which call, and which row of it, read each token of what was returned.

A causal decoder's weights depend on what stands before a token alone. So the row of a token is
found by its prefix, whatever the run did in between: it reordered beams, tried candidates and threw
them away, or read everything again at each step.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.attention import Record
from regard.errors import RequestError

__all__ = ["GenerationRun", "ModelCall", "Piece", "joined"]

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


_SHORT = 32
"""Tokens of a prompt whose every beginning is tried."""


class Piece(NamedTuple):
    """Rows of one call, with the places of the first row and the first column.

    Shapes:
        weights (head, Q, K)
    """

    weights: Floats
    row: int
    column: int


def joined(name: str, pieces: Iterable[Piece], *, own: bool) -> Floats:
    """One matrix of the rows of all calls; zeros where a row had no such column.

    Args:
        own: columns are the tokens of the rows; those that no row stands for were never written,
            as in a static cache, and are left out.

    Raises:
        RequestError: two calls have the same row, a row is missing, or looks at what follows.
    """
    some = sorted(pieces, key=lambda piece: piece.row)
    total = 0
    for piece in some:
        if piece.row != total:
            raise RequestError(
                f"{name}: the steps of generate do not join: row {total + 1} was expected, got row "
                f"{piece.row + 1}"
            )
        total += piece.weights.shape[1]
    width = max(piece.column + piece.weights.shape[2] for piece in some)
    whole = np.zeros((len(some[0].weights), total, width), np.float32)
    for piece in some:
        rows = slice(piece.row, piece.row + piece.weights.shape[1])
        whole[:, rows, piece.column : piece.column + piece.weights.shape[2]] = piece.weights
    if own and width > total:
        if whole[:, :, total:].any():
            raise RequestError(f"{name}: its rows look at tokens that were never read")
        whole = np.ascontiguousarray(whole[:, :, :total])
    return whole


@dataclass(frozen=True)
class ModelCall:
    """One call of the model.

    Args:
        ids: of every row all tokens up to the last that it reads; -1 where a vector was given.
        start: the place of the first token that it reads.
        sizes: of every layer of the cache, how many keys it hands over, and the first one's place.

    Shapes:
        ids (rows, L)
    """

    ids: Ids
    start: int
    sizes: tuple[tuple[int, int], ...] = ()

    def column(self, keys: int, layer: int | None) -> int | None:
        """The place of the first of this many keys; None where this is not known."""
        if keys == self.ids.shape[1]:
            return 0  # all tokens there are
        if layer is not None and layer < len(self.sizes):
            count, start = self.sizes[layer]
            return start if count == keys else None
        starts = {start for count, start in self.sizes if count == keys}
        return starts.pop() if len(starts) == 1 else None


class GenerationRun:
    """What is known of one run.

    Args:
        batch: examples that `generate` was given.
        ends: tokens that end or fill up a sequence; none of them need be read.
    """

    def __init__(self, batch: int, ends: Iterable[int] = ()) -> None:
        self.batch, self.ends = batch, sorted(ends)
        self.readings: list[ModelCall] = []
        self.sequences: Ids | None = None
        self.reason = "generate has not ended"
        self.encoded = 0
        self._paths: dict[int, list[tuple[int, int]]] = {}

    def end(self, sequences: Ids | None) -> None:
        """It has returned this; None is of a form that is not known."""
        self.sequences = sequences
        self.reason = ""
        if sequences is None:
            self.reason = "generate returned no sequences"
        elif self.encoded > 1:
            self.reason = f"the encoder ran {self.encoded} times: several passages or attempts"
        elif len(sequences) % self.batch:
            self.reason = f"{len(sequences)} sequences for a batch of {self.batch}"

    def refuse(self, reason: str) -> None:
        """Note why the steps cannot be put together; the first reason stays."""
        self._refused = self._refused or reason

    _refused = ""

    def example(self, row: int) -> int:
        """The example that a returned sequence was written for.

        Raises:
            RequestError: there is no such sequence, or the run cannot be put together.
        """
        reason = self._refused or self.reason
        if reason or self.sequences is None:
            raise RequestError(f"the steps of generate cannot be put together: {reason}")
        count = len(self.sequences)
        if not 0 <= row < count:
            raise RequestError(f"there is no row {row} in a batch of {count} sequences")
        return row // (count // self.batch)

    def path(self, row: int) -> list[tuple[int, int]]:
        """Of each token but the last, which nothing need read, the call and its row.

        Raises:
            RequestError: not every token of the sequence was read inside the run.
        """
        example = self.example(row)
        if row not in self._paths:
            assert self.sequences is not None
            self._paths[row] = self._path(example, self.sequences[row])
        return self._paths[row]

    def _path(self, example: int, sequence: Ids) -> list[tuple[int, int]]:
        if not self.readings:
            raise RequestError("the steps of generate cannot be put together: it called no model")
        first = self.readings[0].ids
        prompt = first[example * len(first) // self.batch]
        # What is returned begins with the prompt, or is what is new alone (speech, vectors). A
        # first call may have candidates behind the prompt: it is one of its beginnings.
        cuts = {0, len(prompt), *(range(len(prompt)) if len(prompt) <= _SHORT else ())}
        best, most, whole = [], -1, sequence
        for cut in sorted(cuts):
            tokens = np.concatenate([prompt[:cut], sequence])
            path = self._read(example, tokens[:-1])
            if len(path) - cut > most:
                best, most, whole = path, len(path) - cut, tokens
        if not best:
            raise RequestError(
                "the steps of generate cannot be put together: its first tokens were not read "
                "inside of it, but came with a cache"
            )
        after = whole[len(best) + 1 :]
        if not np.isin(after, self.ends).all():
            raise RequestError(
                "the steps of generate cannot be put together: no call that it prepared read token "
                f"{len(best) + 1} of {len(whole)}, as when a function of your own calls the model; "
                "take .steps"
            )
        return best

    def _read(self, example: int, sequence: Ids) -> list[tuple[int, int]]:
        """Of the tokens from the first on, who read them, up to the first that nobody did."""
        found: dict[int, tuple[int, int]] = {}
        for n, reading in enumerate(self.readings):
            rows = len(reading.ids)
            if rows % self.batch:
                raise RequestError(
                    f"the steps of generate cannot be put together: a call of {rows} rows for a "
                    f"batch of {self.batch}"
                )
            low, high = (rows // self.batch * e for e in (example, example + 1))
            length = min(len(sequence), reading.ids.shape[1])
            same = reading.ids[low:high, :length] == sequence[:length]
            common = np.logical_and.accumulate(same, 1).sum(1)
            best = int(common.argmax())
            for place in range(reading.start, int(common[best])):
                found.setdefault(place, (n, low + best))
        count = next(i for i in range(len(found) + 1) if i not in found)
        return [found[place] for place in range(count)]

    def of(self, record: Record, row: int) -> Tensor:
        """The weights of one returned sequence, as one pass over it would have them.

        Raises:
            RequestError: the steps cannot be put together.

        Shapes:
            weights (head, Q, K)
        """
        example = self.example(row)
        steps: dict[int, int] = {}
        beside: list[int] = []
        for n, axes in enumerate(record.meaning):
            if axes.run is not self:
                continue
            if axes.reading < 0:
                beside.append(n)
            elif steps.setdefault(axes.reading, n) != n:
                raise RequestError(
                    f"{record.title}: it attended several times in one step of generate; choose "
                    'one by within({"call": n})'
                )
        if not steps:
            return self._beside(record, beside, example)
        parts: dict[tuple[int, int], list[int]] = {}
        for place, (reading, line) in enumerate(self.path(row)):
            parts.setdefault((reading, line), []).append(place)
        pieces, own = [], True
        for (reading, line), places in parts.items():
            if reading not in steps:
                raise RequestError(f"{record.title}: it did not run in every step of generate")
            axes = record.meaning[steps[reading]]
            if axes.batch != ("example",):
                raise RequestError(f"{record.title}: {axes.reason}")
            kept = record.step(steps[reading])
            if axes.columns is None:
                raise RequestError(
                    f"{record.title}: which of the tokens its {kept.shape[-1]} keys are is not "
                    "known"
                )
            own = own and axes.columns.kind == "token"
            whole = kept[line].float().cpu().numpy()
            start = places[0] - self.readings[reading].start
            rows = whole if axes.heads else whole[None]
            rows = rows[:, start : start + len(places)]
            if rows.shape[1] != len(places):
                raise RequestError(f"{record.title}: it did not read every token of its step")
            pieces.append(Piece(rows, places[0], axes.columns.start))
        return torch.from_numpy(joined(record.title, pieces, own=own))

    def _beside(self, record: Record, steps: list[int], example: int) -> Tensor:
        """What an encoder looked at, once for all that is written of it."""
        if len(steps) != 1 or record.meaning[steps[0]].batch != ("example",):
            raise RequestError(
                f"{record.title}: it ran beside the steps of generate, {len(steps)} times"
            )
        weights = record.step(steps[0])
        if len(weights) % self.batch:
            raise RequestError(
                f"{record.title}: {len(weights)} rows for a batch of {self.batch} examples"
            )
        one = weights[example * (len(weights) // self.batch)]
        return one if record.meaning[steps[0]].heads else one[None]
