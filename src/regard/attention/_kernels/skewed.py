r"""Fixed biases per offset with PyTorch's fused kernel: the bias of all pairs is a strided view.

With queries in reversed order the offsets are :math:`j - i = j + i' - (Q - 1)`. So the biases of
all pairs are a view, with stride one along both axes, of a table of Q + K - 1 numbers per head, and
no tensor of all pairs is stored.
"""

from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention._ops import eager
from regard.attention.call import Call
from regard.attention.position import ALiBi, BucketBias, DistanceMask, RelativeBias
from regard.attention.read import WeightedSum
from regard.attention.score import NegativeSquaredEuclidean

__all__ = ["attend_skewed", "supports_skewed", "supports_skewed_parts"]


def supports_skewed_parts(call: Call) -> bool:
    """Whether it supports the parts of a call, regardless of tensors and mask."""
    read = call.read
    return (
        type(call.position) in (ALiBi, BucketBias, DistanceMask, RelativeBias)
        and hasattr(call.score, "as_dot")
        and type(call.score) is not NegativeSquaredEuclidean  # whose products have a feature more
        and type(read) is WeightedSum
        and not (read.dropout and read.training)
    )


def supports_skewed(call: Call) -> bool:
    """Whether it supports a call that tiles support: fixed biases, and no mask.

    PyTorch's CPU kernel reads a mask with its strides. It has no gradient for the mask and needs
    values of the keys' size and no dropout.
    """
    if call.query is None or call.mask is not None or not supports_skewed_parts(call):
        return False
    query, key, value = call.tensors
    learned = torch.is_grad_enabled() and _numbers(call).requires_grad
    return query.is_cpu and not learned and query.shape[-1] == key.shape[-1] == value.shape[-1]


def _numbers(call: Call) -> Tensor:
    """The table or slopes of a call's position."""
    position = call.position
    if isinstance(position, RelativeBias):
        return position.table
    return cast(ALiBi | DistanceMask, position).slopes


def attend_skewed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    bias: Tensor | None,
    slopes: Tensor | None,
    heads: int,
    scale: float,
    at: int,
) -> Tensor:
    """Attention of rows with a bias per clipped offset, or a penalty per unit of distance.

    Shapes:
        query (row, Q, D), key (row, K, D), value (row, K, D), bias (1 or head, 2k + 1),
        slopes (1 or head,) to (row, Q, D); heads divides the rows
    """
    queries, keys = query.shape[1], key.shape[1]
    offsets = torch.arange(1 - queries - at, keys - at, device=query.device)
    if slopes is not None:
        table = slopes[:, None] * -offsets.abs().to(slopes.dtype)
    else:
        assert bias is not None
        clip = bias.shape[1] // 2
        table = bias.index_select(1, offsets.clamp_(-clip, clip).add_(clip))
    table = table.detach()
    alone = 0 if len(table) == 1 else table.stride(0)
    sizes = query.shape[0] // heads, heads
    mask = table.as_strided((*sizes, queries, keys), (0, alone, 1, 1))
    turned = query.flip(1).view(*sizes, *query.shape[1:])
    key, value = key.view(*sizes, *key.shape[1:]), value.view(*sizes, *value.shape[1:])
    context = F.scaled_dot_product_attention(turned, key, value, attn_mask=mask, scale=scale)
    eager.differentiable(context)
    return context.flip(2).view(query.shape)
