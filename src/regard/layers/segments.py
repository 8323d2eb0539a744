"""Pooling of rows that belong to segments, as the cells of a pair of concepts do."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["POOLS", "segment_logsumexp", "segment_max", "segment_mean"]


def segment_logsumexp(
    x: Float[Tensor, "n dim"], segments: Int[Tensor, " n"], count: int
) -> Float[Tensor, "count dim"]:
    r"""The logarithm of the sum of exponentials of each segment.

    .. math:: y_s = \log \sum_{i: g_i = s} \exp x_i

    A segment without rows gives zeros: nothing speaks for any column.

    Shapes:
        x (N, D), segments (N,) below `count`, to (count, D)

    Example:
        >>> x = torch.tensor([[0.0], [0.0], [3.0]])
        >>> segment_logsumexp(x, torch.tensor([0, 0, 2]), 3).exp().round().flatten().tolist()
        [2.0, 1.0, 20.0]
    """
    top = _largest(x.detach(), segments, count)
    shifted = (x - top[segments]).exp()
    total = x.new_zeros(count, x.shape[1]).index_add(0, segments, shifted)
    empty = ~_there(segments, count)[:, None]
    return torch.where(empty, 0.0, total.masked_fill(empty, 1.0).log() + top)


def segment_max(
    x: Float[Tensor, "n dim"], segments: Int[Tensor, " n"], count: int
) -> Float[Tensor, "count dim"]:
    """The largest of each segment, zeros for one without rows."""
    return _largest(x, segments, count)


def segment_mean(
    x: Float[Tensor, "n dim"], segments: Int[Tensor, " n"], count: int
) -> Float[Tensor, "count dim"]:
    """The mean of each segment, zeros for one without rows."""
    total = x.new_zeros(count, x.shape[1]).index_add(0, segments, x)
    return total / segments.bincount(minlength=count).clamp(min=1)[:, None]


def _largest(x: Tensor, segments: Tensor, count: int) -> Tensor:
    index = segments[:, None].expand_as(x)
    return x.new_zeros(count, x.shape[1]).scatter_reduce(0, index, x, "amax", include_self=False)


def _there(segments: Tensor, count: int) -> Tensor:
    return segments.bincount(minlength=count) > 0


POOLS: Mapping[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "logsumexp": segment_logsumexp,
    "max": segment_max,
    "mean": segment_mean,
}
"""How the rows of a segment become one."""
