r"""Attention by tiles of a few rows and queries, forward and backward.

.. math:: P = \mathrm{softmax}(S), \quad O = P V, \qquad
          \dot S = P \circ (\dot P - \mathrm{rowsum}(P \circ \dot P)), \quad \dot P = \dot O V^\top

The backward pass recomputes each tile's scores and accumulates the gradients in place, so it needs
no more memory than the forward pass. With dropout the values are read with Z o P, where Z is drawn
tile by tile, again in the backward pass. `Terms` are the terms beside the product of queries and
keys; tables over offsets are applied with strided views (`offsets.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import torch
from torch import Tensor

from regard.attention._kernels.region import Region
from regard.attention._ops import eager
from regard.attention._ops.distances import NearPairs, inverse, inverse_backward
from regard.attention._ops.offsets import add_by_offset, sum_by_offset
from regard.attention._ops.tile_dropout import TileDropout
from regard.native.derivatives import double_backward, double_backward_wanted

__all__ = ["Terms", "attend_by_tiles"]

PAIRS = 1 << 18  # of one tile: 1 MiB of scores in fp32, twice that with the weights
QUERIES = 128


@dataclass(frozen=True)
class Terms:
    """Terms added to `scale * query @ key^T`, and to the weighted sum of the values.

    Args:
        keys: relative keys (Shaw), dotted with the query.
        values: relative values (Shaw), added to the values.
        bias: one number per clipped offset.
        slopes: the penalty per unit of distance.
        inverse: scores are this over (1 + distance) instead of products; for a scale of 1.
        heads: size of the last batch axis, which matches the head axis of the tables.

    Shapes:
        keys (1 or head, 2k + 1, D), values (1 or head, 2k + 1, Dv), bias (1 or head, 2k + 1),
        slopes (1 or head,)
    """

    keys: Tensor | None = None
    values: Tensor | None = None
    bias: Tensor | None = None
    slopes: Tensor | None = None
    inverse: float | None = None
    heads: int = 1


def attend_by_tiles(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    terms: Terms,
    scale: float,
    region: Region,
    dropout: float = 0.0,
) -> Tensor:
    """Softmax attention of rows, with dropout of the weights.

    Shapes:
        query (row, Q, D), key (row, K, D), value (row, K, Dv) to (row, Q, Dv)
    """
    drop = (dropout, int(torch.randint(1 << 62, (1,)))) if dropout else None
    context: Tensor = _Tiles.apply(  # type: ignore[no-untyped-call]
        query,
        key,
        value,
        terms.keys,
        terms.values,
        terms.bias,
        terms.slopes,
        scale,
        region,
        terms.heads,
        terms.inverse,
        drop,
    )
    return context


class _Tile:
    """One tile: its rows, its queries, the keys they may look at, and the scores of those."""

    def __init__(
        self, work: "_Work", rows: slice, start: int, stop: int, low: int, high: int
    ) -> None:
        self.rows, self.queries, self.keys = rows, slice(start, stop), slice(low, high)
        self.work = work
        self.first = low - work.region.at - start  # the offset of the tile's corner
        self.query = work.query[rows, start:stop] * work.scale
        self.key = work.key[rows, low:high]
        self.value = work.value[rows, low:high]
        self.near: NearPairs | None = None

    @cached_property
    def head(self) -> Tensor:
        """The head of each row of the tile."""
        rows = torch.arange(self.rows.start, self.rows.stop, device=self.query.device)
        return rows % self.work.heads

    def own(self, table: Tensor) -> Tensor:
        """A table for the tile's rows: (1 or row, ...)."""
        return table if table.shape[0] == 1 else table[self.head]

    def weights(self) -> Tensor:
        """The weights of this tile's pairs (row, c, n), in a buffer that later tiles reuse."""
        work = self.work
        shape = (*self.query.shape[:2], self.key.shape[1])
        scores = torch.bmm(self.query, self.key.transpose(1, 2), out=work.scratch(0, shape))
        if work.inverse is not None:
            self.near = inverse(
                scores, self.query, self.key, work.inverse, out=work.scratch(3, shape)
            )
        if work.relative is not None:
            table = torch.matmul(self.query, self.own(work.relative).transpose(1, 2))
            add_by_offset(scores, table, self.first)
        if work.bias is not None:
            add_by_offset(scores, self.own(work.bias)[:, None], self.first)
        if work.slopes is not None:
            slopes = self.own(work.slopes)[:, None, None]
            scores.addcmul_(self.distance(), slopes, value=-1)
        work.region.hide(scores, self.rows, self.queries.start, self.keys.start)
        weights = torch.softmax(scores, -1, out=work.scratch(1, shape))
        certain = work.region.sees(self.queries.start, self.queries.stop)
        if not certain and weights[..., 0].isnan().any():
            # Such a row had nothing to look at, or has a NaN of its own.
            weights.masked_fill_((scores == -inf).all(-1, keepdim=True), 0.0)
        return weights

    def distance(self) -> Tensor:
        """The distance of each pair: (c, n)."""
        count, columns = self.query.shape[1], self.key.shape[1]
        device, dtype = self.query.device, self.query.dtype
        key = torch.arange(self.first, self.first + columns, device=device, dtype=dtype)
        return (key - torch.arange(count, device=device, dtype=dtype)[:, None]).abs_()


class _Work:
    """What all tiles share."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        relative: Tensor | None,
        values: Tensor | None,
        bias: Tensor | None,
        slopes: Tensor | None,
        scale: float,
        region: Region,
        heads: int,
        inverse: float | None,
        drop: tuple[float, int] | None,
    ) -> None:
        self.query, self.key, self.value = query, key, value
        self.relative, self.values, self.bias, self.slopes = relative, values, bias, slopes
        self.scale, self.region, self.heads, self.inverse = scale, region, heads, inverse
        self.dropping = None if drop is None else TileDropout(*drop, query.device)
        self._scratch: dict[int, Tensor] = {}

    def scratch(self, which: int, shape: tuple[int, ...]) -> Tensor:
        """A buffer shared by the tiles."""
        size = shape[0] * shape[1] * shape[2]
        have = self._scratch.get(which)
        if have is None or have.numel() < size:
            have = self._scratch[which] = self.query.new_empty(size)
        return have[:size].view(shape)

    def tiles(self) -> Iterator[_Tile]:
        """All tiles with allowed pairs; fewer rows per tile if there are many keys."""
        rows, queries, keys = self.query.shape[0], self.query.shape[1], self.key.shape[1]
        region = self.region
        window = region.left + region.right
        # Products in low precision are fast enough to want larger ones.
        low = 2 if self.query.element_size() == 2 else 1
        # Beside a narrow window, many queries would score many pairs that are outside it.
        count = min(queries, low * (QUERIES if window > QUERIES else QUERIES // 2))
        count = max(1, count)  # there may be no queries
        reach = min(keys, window + count)
        together = max(1, int(low * low * PAIRS // max(1, count * reach)))
        for row in range(0, rows, together):
            block = slice(row, min(row + together, rows))
            for start in range(0, queries, count):
                stop = min(start + count, queries)
                low, high = region.span(block, start, stop)
                if low < high:
                    yield _Tile(self, block, start, stop, low, high)


class _Tiles(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        tensors, ctx.rest = arguments[:7], arguments[7:]
        ctx.save_for_backward(*tensors)
        work = _Work(*tensors, *ctx.rest)
        context = work.query.new_zeros(*work.query.shape[:2], work.value.shape[-1])
        for tile in work.tiles():
            weights = tile.weights()
            if work.dropping is not None:
                weights.mul_(work.dropping.factors(weights))
            read = torch.bmm(weights, tile.value)
            if work.values is not None:
                table = tile.own(work.values)
                read += torch.matmul(sum_by_offset(weights, table.shape[1] // 2, tile.first), table)
            context[tile.rows, tile.queries] = read
        return context

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors  # asked for once: a checkpoint gives them once
        if double_backward_wanted():
            own: list[Any] = [None if x is None else x.detach() for x in tensors]
            rest = _twice(_Work(*own, *ctx.rest))
            return double_backward(eager.tiles, (*tensors, *rest), grads, ctx.needs_input_grad)
        work = _Work(*tensors, *ctx.rest)
        (grad,) = grads
        given: list[Tensor | None] = [
            torch.zeros_like(tensor) if need else None
            for tensor, need in zip(tensors, ctx.needs_input_grad, strict=False)
        ]
        query, key, value, relative, values, bias, slopes = given
        for tile in work.tiles():
            weights = used = tile.weights()
            factors = None if work.dropping is None else work.dropping.factors(weights)
            if factors is not None:
                used = weights * factors
            out = grad[tile.rows, tile.queries]
            back = torch.bmm(
                out, tile.value.transpose(1, 2), out=work.scratch(0, tuple(weights.shape))
            )
            if work.values is not None:
                table = tile.own(work.values)
                dots = torch.matmul(out, table.transpose(1, 2))
                # a constant of a row would be dropped here and there
                add_by_offset(back, dots, tile.first, exact=factors is not None)
                if values is not None:
                    sums = sum_by_offset(used, table.shape[1] // 2, tile.first)
                    _add(values, tile, torch.matmul(sums.transpose(1, 2), out))
            if value is not None:
                value[tile.rows, tile.keys].baddbmm_(used.transpose(1, 2), out)
            if factors is not None:
                back.mul_(factors)
            back = torch.ops.aten._softmax_backward_data.out(
                back, weights, -1, weights.dtype, grad_input=work.scratch(2, tuple(weights.shape))
            )
            if slopes is not None:
                _add(slopes, tile, -torch.mv(back.flatten(1), tile.distance().flatten()))
            if bias is not None:
                sums = sum_by_offset(back, bias.shape[1] // 2, tile.first)
                _add(bias, tile, sums.sum(1))
            if work.inverse is not None:
                assert tile.near is not None
                inverse_backward(
                    back,
                    work.scratch(3, tuple(weights.shape)),
                    tile.near,
                    tile.query,
                    tile.key,
                    work.inverse,
                    None if query is None else query[tile.rows, tile.queries],
                    None if key is None else key[tile.rows, tile.keys],
                )
            if query is not None:
                query[tile.rows, tile.queries] += torch.bmm(back, tile.key).mul_(work.scale)
            if key is not None:
                key[tile.rows, tile.keys].baddbmm_(back.transpose(1, 2), tile.query)
            if work.relative is not None:
                table = tile.own(work.relative)
                sums = sum_by_offset(back, table.shape[1] // 2, tile.first)
                if query is not None:
                    query[tile.rows, tile.queries] += torch.matmul(sums, table).mul_(work.scale)
                if relative is not None:
                    _add(relative, tile, torch.matmul(sums.transpose(1, 2), tile.query))
        return (*given, None, None, None, None, None)


@torch.no_grad()
def _twice(work: _Work) -> tuple[Any, ...]:
    """The other arguments of `plain.tiles`: the mask and the dropout factors of all pairs."""
    rows, queries, keys = len(work.query), work.query.shape[1], work.key.shape[1]
    scores = work.query.new_zeros(rows, queries, keys)
    factors = None
    if work.dropping is not None:
        factors = torch.zeros_like(scores)
        for tile in work.tiles():  # drawn in the same order
            part = factors[tile.rows, tile.queries, tile.keys]
            part.copy_(work.dropping.factors(part))
    work.region.hide(scores, slice(0, rows), 0, 0)
    return scores == 0, factors, work.region.at, work.scale, work.heads, work.inverse


def _add(total: Tensor, tile: _Tile, part: Tensor) -> None:
    """Add the rows of a tile to the tables of their heads, or to the shared table."""
    if total.shape[0] == 1:
        total += part.sum(0, keepdim=True)
    else:
        total.index_add_(0, tile.head, part.to(total.dtype))  # autocast halves products
