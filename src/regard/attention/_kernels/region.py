"""Tiles of a mask, without materializing all of it."""

from collections.abc import Iterator
from math import inf

import torch
from torch import Tensor

from regard.attention.mask import Block, Causal, Directional, Documents, Lengths, Mask, Window
from regard.attention.mask.base import _Both, _Either, _Not
from regard.attention.plain import exactly

__all__ = ["WINDOWS", "Region", "factors", "window_of"]

WINDOWS = (Window, Causal)
_BY_OFFSET = (*WINDOWS, Directional)  # all that they know is how far apart a pair is
_TILED = (*_BY_OFFSET, Block, Documents, Lengths, _Both, _Either, _Not)
LIMITS = 4  # cut windows that are kept


def factors(mask: Mask | None) -> Iterator[Mask]:
    """The masks of a conjunction."""
    if exactly(mask, _Both):
        assert isinstance(mask, _Both)
        yield from factors(mask.first)
        yield from factors(mask.second)
    elif mask is not None:
        yield mask


def window_of(mask: Mask | None) -> tuple[float | int, float | int]:
    """The limits (left, right) of a mask for all queries; infinite if there is none."""
    limits = [_limits(factor) for factor in factors(mask)]
    return min([inf, *(x[0] for x in limits)]), min([inf, *(x[1] for x in limits)])


def _limits(mask: Mask) -> tuple[float | int, float | int]:
    """The limits of a single mask. A negative limit also excludes the query's own position."""
    if not exactly(mask, *_BY_OFFSET, Block):
        return inf, inf
    if isinstance(mask, Window):
        return inf if mask.left is None else mask.left, inf if mask.right is None else mask.right
    if isinstance(mask, Directional):
        return (inf, -1) if mask.direction == "forward" else (-1, inf)
    if isinstance(mask, Block):
        left, right = (
            inf if n is None else (n + 1) * mask.size - 1 for n in (mask.left, mask.right)
        )
        return left, right
    return inf, inf


class Region:
    """A mask over flattened batch rows, evaluated by tiles.

    Args:
        batch: the batch axes of the scores; their product is the number of rows.
        at: position of the first query among the keys.
    """

    def __init__(
        self,
        mask: Mask | None,
        batch: torch.Size,
        queries: int,
        keys: int,
        at: int,
        device: torch.device,
    ) -> None:
        self.batch, self.queries, self.keys, self.at = batch, queries, keys, at
        self.device = device
        self.left, self.right = window_of(mask)
        self._whole: dict[int, Tensor] = {}
        self._ids: dict[int, tuple[Tensor, Tensor]] = {}
        self._limits: dict[tuple[int, int, int], Tensor] = {}
        self._lengths: list[Tensor] = []
        self._others: list[Mask] = []
        self._reaches: list[tuple[Tensor, Tensor]] = []
        for factor in factors(mask):
            if exactly(factor, Lengths):
                self._lengths.append(self._flat(factor))
            elif not exactly(factor, *_BY_OFFSET):
                self._others.append(factor)
            if exactly(factor, Documents):
                self._reaches.append(self._reach(factor))

    def span(self, rows: slice, start: int, stop: int) -> tuple[int, int]:
        """The range (first, end) of all keys that these queries may look at; it may be empty."""
        low = max(0, self.at + start - self.left)
        high = min(self.keys, self.at + stop + self.right)
        for lengths in self._lengths:
            high = min(high, int(lengths[rows].max()))
        for first, last in self._reaches:
            low = max(low, int(first[rows, start:stop].min()))
            high = min(high, int(last[rows, start:stop].max()) + 1)
        return int(low), int(high)

    def mean_reach(self) -> float:
        """The mean number of keys from the first to the last key of a query's document.

        K without documents.
        """
        reaches = [(last - first + 1).clamp(min=0) for first, last in self._reaches]
        return min((float(x.double().mean()) for x in reaches), default=float(self.keys))

    def hide(self, scores: Tensor, rows: slice, start: int, low: int) -> None:
        """Set the masked pairs of a tile to minus infinity.

        Shapes:
            scores (rows, c, n) of the queries from `start` on and the keys from `low` on
        """
        count, columns = scores.shape[-2:]
        stop, high = start + count, low + columns
        first = low - self.at - start  # the offset of the tile's corner
        # Columns up to where the last row is past its left limit, and from the first row's right.
        before = 0 if self.left == inf else max(0, int(count - 1 - self.left - first))
        behind = columns if self.right == inf else max(0, int(self.right - first + 1))
        if before >= behind:
            self._beyond(scores, first)
        else:
            self._beyond(scores[..., :before], first)
            self._beyond(scores[..., behind:], first + behind)
        for lengths in self._lengths:
            own = lengths[rows]
            skip = max(0, int(own.min()) - low)
            if skip < columns:
                key = torch.arange(low + skip, high, device=scores.device)
                scores[..., skip:].masked_fill_(key >= own[:, None, None], -inf)
        for other in self._others:
            allowed = self._tile(other, rows, start, stop, low, high)
            scores.masked_fill_(~allowed, -inf)

    def sees(self, start: int, stop: int) -> bool:
        """Whether each of these queries is known to have an allowed key."""
        if self._lengths or self._others:
            return False
        return self.at + start + self.right >= 0 and self.at + stop - 1 - self.left < self.keys

    def _beyond(self, scores: Tensor, first: int) -> None:
        """Mask what is outside the window in these columns."""
        count, columns = scores.shape[-2:]
        if not columns:
            return
        shape = (count, columns, first)
        limit = self._limits.get(shape)
        if limit is None:
            key = torch.arange(first, first + columns, device=scores.device)
            offset = key - torch.arange(count, device=scores.device)[:, None]
            hidden = (offset < -self.left) | (offset > self.right)
            limit = torch.full(hidden.shape, inf, dtype=scores.dtype, device=scores.device)
            limit.masked_fill_(hidden, -inf)
            if len(self._limits) < LIMITS:  # nearly all tiles are cut alike
                self._limits[shape] = limit
        torch.minimum(scores, limit, out=scores)  # faster than to fill by a bool mask

    def _tile(self, mask: Mask, rows: slice, start: int, stop: int, low: int, high: int) -> Tensor:
        """The tile of any mask as a bool tensor that broadcasts to (rows, c, n)."""
        if not exactly(mask, *_TILED):
            return self._cut(mask, rows, slice(start, stop), slice(low, high))
        if isinstance(mask, _Both | _Either):
            first = self._tile(mask.first, rows, start, stop, low, high)
            return mask.join(first, self._tile(mask.second, rows, start, stop, low, high))
        if isinstance(mask, _Not):
            return ~self._tile(mask.mask, rows, start, stop, low, high)
        if isinstance(mask, Lengths):
            own = self._flat(mask)[rows]
            return torch.arange(low, high, device=self.device) < own[:, None, None]
        if isinstance(mask, Window | Directional):
            return mask.dense(
                stop - start, high - low, at=self.at + start - low, device=self.device
            )
        if isinstance(mask, Block):
            return mask.dense(stop - start, high, at=self.at + start, device=self.device)[:, low:]
        if isinstance(mask, Documents):
            own, ids = self._documents(mask)
            own = own[rows, start:stop, None]
            return (own == ids[rows, None, low:high]) & (own >= 0)
        raise AssertionError("each of the masks that are computed by tiles is above")

    def _cut(self, mask: Mask, rows: slice, queries: slice, keys: slice) -> Tensor:
        """The tile of a mask that is known by its `dense` alone."""
        whole = self._whole.get(id(mask))
        if whole is None:
            whole = mask.dense(self.queries, self.keys, at=self.at, device=self.device)
            whole = self._whole[id(mask)] = whole.expand(*whole.shape[:-2], self.queries, self.keys)
        tile = whole[..., queries, keys]
        if tile.shape[:-2].numel() == 1:
            return tile.reshape(1, *tile.shape[-2:])
        tile = tile.expand(*self.batch, *tile.shape[-2:])
        row = torch.arange(self.batch.numel(), device=tile.device)[rows]
        return tile[torch.unravel_index(row, self.batch)]

    def _flat(self, mask: Lengths) -> Tensor:
        """One length per row."""
        return mask.lengths.to(self.device).expand(self.batch).reshape(-1)

    def _documents(self, mask: Documents) -> tuple[Tensor, Tensor]:
        """The documents of the queries (row, Q) and of the keys (row, K)."""
        kept = self._ids.get(id(mask))
        if kept is None:
            if mask.ids.shape[-1] < self.keys:
                mask.dense(1, self.keys, at=self.at, device=self.device)  # says what is wrong
            mask.dense(self.queries, min(1, self.keys), at=self.at, device=self.device)
            own = mask.ids if mask.queries is None else mask.queries
            whole = mask.queries is not None and own.shape[-1] == self.queries
            at = 0 if whole else self.at
            pair = (own[..., at : at + self.queries], mask.ids[..., : self.keys])
            own, ids = (
                x.to(self.device)
                .expand(*self.batch, x.shape[-1])
                .reshape(self.batch.numel(), x.shape[-1])
                for x in pair
            )
            kept = self._ids[id(mask)] = own, ids
        return kept

    def _reach(self, mask: Documents) -> tuple[Tensor, Tensor]:
        """The first and the last key of each query's document, (row, Q) each; K and -1 for none."""
        own, ids = self._documents(mask)
        names, index = torch.unique(torch.cat([own, ids], -1), return_inverse=True)
        query, key = index.split([self.queries, self.keys], -1)
        place = torch.arange(self.keys, device=self.device).expand_as(key)
        ends = []
        for how, none in (("amin", self.keys), ("amax", -1)):
            end = place.new_full((key.shape[0], len(names)), none)
            end = end.scatter_reduce(1, key, place, how).gather(1, query)
            ends.append(torch.where(own < 0, none, end))
        return ends[0], ends[1]
