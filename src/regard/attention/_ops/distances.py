r"""Inverse distances of a tile from its products, without a tensor of differences.

.. math:: r^2 = \lVert q \rVert^2 + \lVert k \rVert^2 - 2 q^\top k, \qquad
          \frac{\partial}{\partial q} \frac{1}{1 + r} = -\frac{q - k}{r\,(1 + r)^2}

For pairs that are much closer to each other than to the origin, these sums cancel. With the mean
key as the origin there are few such pairs (a word and itself); they are computed from differences.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.native.derivatives import double_backward, double_backward_wanted

__all__ = ["NearPairs", "distance", "inverse", "inverse_backward", "inverse_scores"]

NEAR = 1 / 16  # of the square of the query's length
TOGETHER = 1 << 14  # near pairs whose differences are made at once


def distance(difference: Tensor) -> Tensor:
    """The norm along the last axis; at 0 its first and second derivatives are 0."""
    square = difference.square().sum(-1)
    none = square == 0
    return torch.where(none, 1.0, square).sqrt().masked_fill(none, 0.0)


class NearPairs(NamedTuple):
    """Pairs too close for the expansion: their row, query and key in the tile."""

    row: Tensor
    query: Tensor
    key: Tensor

    def pieces(self) -> list["NearPairs"]:
        """Split into pieces of a few pairs."""
        parts = zip(*(index.split(TOGETHER) for index in self), strict=True)
        return [NearPairs(*part) for part in parts]


def inverse(products: Tensor, query: Tensor, key: Tensor, scale: float, out: Tensor) -> NearPairs:
    """Turn the products into `scale / (1 + distance)` in place; the distances are written to `out`.

    Shapes:
        products, out (row, c, n), query (row, c, D), key (row, n, D)
    """
    own = query.square().sum(-1, keepdim=True)
    squares = torch.mul(products, -2, out=out).add_(own)
    squares += key.square().sum(-1).unsqueeze(1)
    near = NearPairs(*(squares < NEAR * own).nonzero(as_tuple=True))
    for some in near.pieces():
        difference = query[some.row, some.query] - key[some.row, some.key]
        squares[some] = difference.square().sum(-1)
    torch.add(squares.sqrt_(), 1, out=products)
    products.reciprocal_().mul_(scale)
    return near


def inverse_backward(
    grad: Tensor,
    distances: Tensor,
    near: NearPairs,
    query: Tensor,
    key: Tensor,
    scale: float,
    grad_query: Tensor | None,
    grad_key: Tensor | None,
) -> None:
    """Turn gradients of the inverse distances into those of the products, in place.

    The gradients of squared norms and of near pairs are added to `grad_query` and `grad_key`.
    """
    grad.div_(distances + 1).div_(distances + 1).div_(distances).mul_(scale)
    grad.masked_fill_(distances == 0, 0.0)  # where both are equal
    slopes = [grad[some] for some in near.pieces()]
    grad[near] = 0.0
    if grad_query is not None:
        grad_query -= query * grad.sum(-1, keepdim=True)
    if grad_key is not None:
        grad_key -= key * grad.sum(-2).unsqueeze(-1)
    for some, slope in zip(near.pieces(), slopes, strict=True):
        step = (query[some.row, some.query] - key[some.row, some.key]) * slope[:, None]
        if grad_query is not None:
            grad_query.index_put_((some.row, some.query), -step, accumulate=True)
        if grad_key is not None:
            grad_key.index_put_((some.row, some.key), step, accumulate=True)


def inverse_scores(query: Tensor, key: Tensor) -> Tensor:
    """Inverse distances of every pair from products, for a select that wants them all.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D) to (*batch, Q, K); batch axes broadcast
    """
    dtype = torch.promote_types(torch.promote_types(query.dtype, key.dtype), torch.float32)
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    rows = [
        x.to(dtype).expand(*batch, *x.shape[-2:]).reshape(math.prod(batch), *x.shape[-2:])
        for x in (query, key)
    ]
    with torch.autocast(query.device.type, enabled=False):
        scores: Tensor = _Inverse.apply(*rows)  # type: ignore[no-untyped-call]
    return scores.view(*batch, *scores.shape[-2:]).to(query.dtype)


def _plain(query: Tensor, key: Tensor) -> Tensor:
    return 1 / (1 + distance(query.unsqueeze(-2) - key.unsqueeze(-3)))


class _Inverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor) -> Tensor:
        origin = key.mean(1, keepdim=True).nan_to_num(0.0, 0.0, 0.0)
        centered = query - origin, key - origin
        scores = torch.bmm(centered[0], centered[1].mT)
        distances = torch.empty_like(scores)
        near = inverse(scores, *centered, 1.0, distances)
        ctx.save_for_backward(query, key, origin, distances, *near)
        return scores

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, origin, distances, *near = ctx.saved_tensors
        if double_backward_wanted():
            return double_backward(_plain, (query, key), (grad,), ctx.needs_input_grad)
        query, key = query - origin, key - origin
        slopes = grad.clone(memory_format=torch.contiguous_format)
        grads = torch.zeros_like(query), torch.zeros_like(key)
        inverse_backward(slopes, distances, NearPairs(*near), query, key, 1.0, *grads)
        return grads[0].baddbmm_(slopes, key), grads[1].baddbmm_(slopes.mT, query)
