r"""Inverse distances of a tile from its products, without a tensor of differences.

.. math:: r^2 = \lVert q \rVert^2 + \lVert k \rVert^2 - 2 q^\top k, \qquad
          \frac{\partial}{\partial q} \frac{1}{1 + r} = -\frac{q - k}{r\,(1 + r)^2}

For pairs that are much closer to each other than to the origin, these sums cancel. With the mean
key as the origin there are few such pairs (a word and itself); they are computed from differences.
"""

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["NearPairs", "distance", "inverse", "inverse_backward"]

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
