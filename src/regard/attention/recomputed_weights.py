"""Recompute the weights of a call for watchers, where its kernel stored none.

Most calls of a translator are a softmax of plain products. These take three operations instead of
the reference's twelve, because the cost of a decoder's small steps is their number of operations.
"""

import weakref
from dataclasses import replace

import torch
from torch import Tensor

from regard.attention.call import Call
from regard.attention.mask import Lengths, Mask
from regard.attention.plain import altered, exactly, is_causal
from regard.attention.score import Dot, ScaledDot
from regard.attention.select import Softmax

__all__ = ["weights_of", "weights_with_gradient"]

_biases: "weakref.WeakKeyDictionary[Lengths, tuple[tuple[object, ...], Tensor | None]]" = (
    weakref.WeakKeyDictionary()
)


@torch.no_grad()
def weights_of(call: Call) -> Tensor:
    """The weights of a call, computed by its parts; values are not read, so no dropout is drawn."""
    return weights_with_gradient(call)


def weights_with_gradient(call: Call) -> Tensor:
    """The same with gradients to queries, keys and parameters, for losses on attention weights."""
    from regard.attention._kernels.reference import Reference
    from regard.attention._kernels.segment import Segment, edge_weights

    mask = _needed(call)
    weights = _product(call, mask)
    if weights is not None:
        return weights
    if altered(call) is None and Segment().unsupported_reason(call) is None:
        return edge_weights(call)  # edge by edge, never all pairs of nodes
    weights = Reference().run(replace(call, need_weights=True, read=_no_read, mask=mask)).weights
    assert weights is not None
    return weights


def _needed(call: Call) -> Mask | None:
    """The mask, or None where it is known to hide nothing.

    A causal mask hides nothing from the newest query; full lengths hide nothing.
    """
    query, _, value = call.tensors
    if is_causal(call.mask) and query.shape[-2] == 1 and isinstance(call.at, int):
        return None if call.at >= value.shape[-2] - 1 else call.mask
    return call.mask


def _product(call: Call, mask: Mask | None) -> Tensor | None:
    """Softmax of a scaled product, or None where the call is more than that."""
    if type(call.score) not in (Dot, ScaledDot) or type(call.select) is not Softmax:
        return None
    if call.position is not None or call.carry is not None or altered(call) is not None:
        return None
    assert isinstance(call.score, Dot | ScaledDot)
    query, key, scale = call.score.as_dot(call.tensors[0], call.keys)
    batch, (queries, width), keys = query.shape[:-2], query.shape[-2:], key.shape[-2]
    same = batch == key.shape[:-2] and query.dtype == key.dtype and width > 0
    if not same or query.dtype not in (torch.float32, torch.float64) or 0 in query.shape:
        return None
    if torch.is_autocast_enabled(query.device.type):
        return None
    bias: Tensor | None = query.new_zeros(1)
    if mask is not None:
        bias = _bias(mask, batch, keys, query) if exactly(mask, Lengths) else None
    if bias is None:
        return None
    scores = torch.baddbmm(
        bias,
        query.reshape(-1, queries, width),
        key.reshape(-1, keys, width).transpose(1, 2),
        alpha=scale / call.select.temperature,
    )
    return torch.softmax(scores, -1).view(*batch, queries, keys)


def _bias(mask: Lengths, batch: torch.Size, keys: int, like: Tensor) -> Tensor | None:
    """Zero where the mask allows, the lowest number elsewhere; None where a row is empty.

    Cached, because a decoder has the same mask at every step.
    """
    made_for = (batch, keys, like.dtype, like.device)
    known = _biases.get(mask)
    if known is None or known[0] != made_for:
        allowed = mask.dense(1, keys, at=0, device=like.device)
        bias = None
        if bool(allowed.any(-1).all()):
            low = torch.zeros_like(allowed, dtype=like.dtype)
            low.masked_fill_(~allowed, torch.finfo(like.dtype).min)
            bias = low.expand(*batch, 1, keys).reshape(-1, 1, keys)
        known = _biases[mask] = (made_for, bias)
    return known[1]


def _no_read(weights: Tensor, value: Tensor, *, at: int | Tensor = 0) -> Tensor:
    """A read that ignores the values and draws no dropout."""
    return weights
