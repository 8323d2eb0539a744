"""Additive attention in C, as PyTorch operators; `additive.h` explains the computation.

The C function is called in three ways: directly without gradients; by an autograd function; and by
operators of `torch.library` for compilers and exporters. The first two exist because an operator
defined in Python costs 10 to 16 us per call, and a decoder step in C only two.
"""

import math

import torch
from torch import Tensor

from regard.attention._ops.cpu import additive_calls as calls
from regard.attention._ops.cpu import additive_ops as ops
from regard.attention._ops.cpu.additive_calls import pack as pack
from regard.attention._ops.cpu.additive_calls import unsupported_reason as unsupported_reason
from regard.attention._ops.cpu.additive_calls import width
from regard.attention._ops.cpu.additive_grad import AttendFunction, ScoresFunction, shared

__all__ = ["attend", "pack", "scores", "unsupported_reason"]

_PLAIN = {Tensor, torch.nn.Parameter}


def scores(
    query: Tensor, key: Tensor, v: Tensor, *, packed: Tensor | None = None, heads: int = 1
) -> Tensor:
    """Scores of every pair, in float32.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D), v (D,), or (heads, D) for a last batch axis of
        heads, to (*batch, Q, K)
    """
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    query, key, packed = _flat(query, batch), _flat(key, batch), _flat_packed(packed, key, batch)
    v = v.float()
    if _traced(query, key, v):
        made: Tensor = ops.scores(query, key, packed, v, heads)
    elif torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or v.requires_grad):
        made = ScoresFunction.apply(query, key, packed, v, heads)  # type: ignore[no-untyped-call]
    else:
        made = calls.scores(query, key, packed, v, heads)
    return made.reshape(*batch, *made.shape[-2:])


def attend(
    query: Tensor,
    key: Tensor,
    v: Tensor,
    value: Tensor,
    *,
    packed: Tensor | None = None,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    scale: float = 1.0,
    heads: int = 1,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The whole attention in float32: scores times `scale`, mask, softmax, weighted sum.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D), v (D,) or (heads, D), value (*batch, K, Dv),
        mask: bool, broadcasts to (*batch, Q, K); lengths: integers, broadcast to (*batch);
        context (*batch, Q, Dv), weights (*batch, Q, K)
    """
    grad = torch.is_grad_enabled() and (
        query.requires_grad or key.requires_grad or v.requires_grad or value.requires_grad
    )
    traced, sums = _traced(query, key, v, value), None
    if grad and not traced and packed is not None and _step(query, key, value):
        _, (key, value), sums = shared(packed, key, value)
    if not _ready(query, key, v, value, packed):
        batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
        query, key, value = _flat(query, batch), _flat(key, batch), _flat(value, batch)
        packed, v = _flat_packed(packed, key, batch), v.float()
    else:
        batch = query.shape[:1]
    if mask is not None:
        sizes = (query.shape[-2], key.shape[-2])
        mask = mask.expand(*batch, *sizes)
        if len(batch) != 1:
            mask = mask.reshape(math.prod(batch), *sizes)
    if lengths is not None:
        if lengths.shape != batch or len(batch) != 1:
            lengths = lengths.expand(batch).reshape(math.prod(batch))
        if lengths.dtype != torch.int64:
            lengths = lengths.to(torch.int64)
    inputs = (query, key, packed, v, value, mask, lengths, scale, heads)
    weights: Tensor | None
    if traced:
        context, weights, _ = ops.attend(*inputs, need_weights)
    elif grad:
        context, weights = AttendFunction.apply(*inputs, need_weights, sums)  # type: ignore[no-untyped-call]
    else:
        context, weights, _ = calls.attend(*inputs, need_weights, False)
    if len(batch) != 1:
        context = context.reshape(*batch, *context.shape[-2:])
        weights = weights.reshape(*batch, *weights.shape[-2:]) if need_weights else None  # type: ignore[union-attr]
    return context, weights if need_weights else None


def _traced(*tensors: Tensor) -> bool:
    """Whether the call needs an operator, for a compiler or `torch.func`."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return True
    kinds = {type(x) for x in tensors}
    return not kinds <= _PLAIN


def _step(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether this is one training step of a decoder over a memory with matching batch axes."""
    return (
        query.shape[-2] == 1
        and (key.requires_grad or value.requires_grad)
        and query.shape[:-2] == key.shape[:-2] == value.shape[:-2]
        and key.dtype == value.dtype == torch.float32
    )


def _ready(query: Tensor, key: Tensor, v: Tensor, value: Tensor, packed: Tensor | None) -> bool:
    """Whether all have the same single batch axis and are float32, a fast check for steps."""
    (*batch, _, _), float32 = query.shape, torch.float32
    return (
        len(batch) == 1
        and len(key.shape) == len(value.shape) == 3
        and batch[0] == key.shape[0] == value.shape[0]
        and query.dtype == key.dtype == v.dtype == value.dtype == float32
        and (
            packed is None
            or (packed.dtype == float32 and packed.shape == (*key.shape[:2], width(key.shape[2])))
        )
    )


def _flat(x: Tensor, batch: torch.Size) -> Tensor:
    """A float32 tensor with one batch axis."""
    if x.dtype != torch.float32:
        x = x.float()
    if x.dim() == 3 and x.shape[:-2] == batch:
        return x
    return x.expand(*batch, *x.shape[-2:]).reshape(math.prod(batch), *x.shape[-2:])


def _flat_packed(packed: Tensor | None, key: Tensor, batch: torch.Size) -> Tensor | None:
    """Packed keys with one batch axis; None if a cast or a move has invalidated them."""
    if packed is None or packed.dtype != torch.float32 or packed.shape[-1] != width(key.shape[-1]):
        return None
    return _flat(packed, batch)
