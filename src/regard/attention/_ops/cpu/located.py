"""Location-aware attention in C, forward and backward; `native/located.c` has the equations."""

from typing import Any

import torch
from torch import Tensor

from regard import native
from regard.attention._ops import eager
from regard.attention._ops.cpu.additive_grad import shared
from regard.native.derivatives import double_backward, double_backward_wanted
from regard.native.gate import Function, Struct

__all__ = ["FILTERS", "attend", "missing", "step"]

FILTERS = 16
"""The most filters that C has room for."""

_CALL = Struct(
    "located_call",
    "batch = b",
    "queries = q",
    "keys = k",
    "dim = d",
    "value_dim = e",
    "filters = m",
    "width = w",
    "query: f32 [b q d]",
    "key: f32 [b k d] rows",
    "value: f32 [b k e] rows",
    "v: f32 [d]",
    "filter: f32 [m w]",
    "project: f32 [d m]",
    "before: f32 [b q k]",
    "key_batch = stride key 0",
    "value_batch = stride value 0",
    "mask: bool? [b q k] any",
    "mask_batch = stride mask 0",
    "mask_query = stride mask 1",
    "mask_key = stride mask 2",
    "lengths: i64? [b]",
    "context: f32? [b q e] out",
    "weights: f32 [b q k] out",
    "grad: f32? [b q e]",
    "grad_weights: f32? [b q k]",
    "grad_query: f32? [b q d] out",
    "grad_key: f32? [b k d] out",
    "grad_v: f32? [d] out",
    "grad_filter: f32? [m w] out",
    "grad_project: f32? [d m] out",
    "grad_before: f32? [b q k] out",
    "scale: double",
    "add: long",
    "parts: address",
    "failed: long",
)
_FORWARD = Function("regard_located", "call: struct located_call", "threads: threads")
_BACKWARD = Function("regard_located_backward", "call: struct located_call", "threads: threads")


def missing() -> str | None:
    """Why C is not there, in a clause, or None."""
    return native.unavailable_reason(_FORWARD.name)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    v: Tensor,
    filters: Tensor,
    project: Tensor,
    before: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Context and weights.

    Shapes:
        query (B, Q, D), key (B, K, D), value (B, K, Dv), v (D,), filters (M, width),
        project (D, M), before and mask (B, Q, K), lengths (B,), to (B, Q, Dv) and (B, Q, K)
    """
    inputs = (query, key, value, v, filters, project, before, mask, lengths, scale)
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs[:7]):
        found: tuple[Tensor, Tensor] = _Located.apply(*inputs)  # type: ignore[no-untyped-call]
        return found
    return _forward(*inputs)


def step(
    query: Tensor,
    weight: Tensor,
    key: Tensor,
    holder: Tensor,
    value: Tensor,
    v: Tensor,
    filters: Tensor,
    project: Tensor,
    before: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """One training step over a memory, including the projection of the query, as one node.

    The gradients of keys, values, v and the projection are gathered over all steps.

    Args:
        holder: the tensor that the memory keeps beside its keys, the same at each step.

    Shapes:
        query (B, Q, Dq), weight (D, Dq); the others as `attend`
    """
    _, tensors, sums = shared(holder, key, value, weight, v)
    key, value, weight, v = tensors
    found: tuple[Tensor, Tensor] = _Step.apply(  # type: ignore[no-untyped-call]
        query, weight, key, value, v, filters, project, before, mask, lengths, scale, sums
    )
    return found


def _again(query: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return eager.located_attend(query @ weight.mT, *rest)


def _forward(*inputs: Any) -> tuple[Tensor, Tensor]:
    query, key, value, v, filters, project, before = _laid_out(*inputs[:7])
    mask, lengths, scale = inputs[7:]
    context = query.new_empty(*query.shape[:2], value.shape[2])
    weights = query.new_empty(before.shape)
    call = _CALL(
        query,
        key,
        value,
        v,
        filters,
        project,
        before,
        mask,
        lengths,
        context,
        weights,
        *[None] * 8,
        scale,
        0,
        None,
        0,
    )
    _FORWARD(call, native.threads(before.numel() * query.shape[2]))
    return context, weights


def _laid_out(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(x if x.is_contiguous() else x.contiguous() for x in tensors)


def _backward(
    inputs: tuple[Any, ...],
    weights: Tensor,
    grad: Tensor,
    more: Tensor | None,
    into: Tensor,
    add: bool,
    early: bool,
) -> tuple[Tensor | None, ...]:
    """Gradients of query, v, filters, project, and of `before` if that is wanted early."""
    query, key, value, v, filters, project, before = _laid_out(*inputs[:7])
    mask, lengths, scale = inputs[7:]
    made = [query.new_empty(x.shape) for x in (query, v, filters, project)]
    back = query.new_empty(before.shape) if early else None
    call = _CALL(
        query,
        key,
        value,
        v,
        filters,
        project,
        before,
        mask,
        lengths,
        None,
        weights,
        grad.contiguous(),
        None if more is None else more.contiguous(),
        made[0],
        into,
        *made[1:],
        back,
        scale,
        int(add),
        None,
        0,
    )
    _BACKWARD(call, native.threads(3 * before.numel() * query.shape[2]))
    return *made, back


class _Located(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        *tensors, ctx.scale = inputs
        context, weights = _forward(*inputs)
        ctx.save_for_backward(*tensors, weights)
        ctx.set_materialize_grads(False)
        return context, weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        *tensors, weights = ctx.saved_tensors
        if double_backward_wanted():
            inputs = (*tensors, ctx.scale)
            return double_backward(eager.located_attend, inputs, grads, ctx.needs_input_grad)
        query, key, value, *_ = tensors
        grad, more = grads
        if grad is None:
            grad = query.new_zeros(*query.shape[:2], value.shape[2])
        into = query.new_empty(key.shape)
        made = _backward(
            (*tensors, ctx.scale), weights, grad, more, into, False, ctx.needs_input_grad[6]
        )
        return made[0], into, weights.mT @ grad, *made[1:], None, None, None


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        query, weight, *tensors, ctx.scale, ctx.sums = inputs
        projected = (query.flatten(0, 1) @ weight.t()).view(*query.shape[:2], -1)
        context, weights = _forward(projected, *tensors, ctx.scale)
        ctx.save_for_backward(query, weight, projected, *tensors, weights)
        ctx.set_materialize_grads(False)
        return context, weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        query, weight, projected, *tensors, weights = ctx.saved_tensors
        sums = ctx.sums
        if double_backward_wanted():
            inputs = (query, weight, *tensors, ctx.scale)
            return double_backward(_again, inputs, grads, ctx.needs_input_grad)
        grad, more = grads
        if grad is None:
            grad = query.new_zeros(*query.shape[:2], tensors[1].shape[2])
        into, add = sums.open(tensors[0])
        back, v, *rest = _backward(
            (projected, *tensors, ctx.scale),
            weights,
            grad,
            more,
            into,
            add,
            ctx.needs_input_grad[7],
        )
        sums.v = v if sums.v is None else sums.v.add_(v)
        sums.value.add(weights, grad)
        if ctx.needs_input_grad[1]:
            sums.weight.add(back, query)
        assert back is not None
        reached = (back.flatten(0, 1) @ weight).view_as(query) if ctx.needs_input_grad[0] else None
        return reached, *[None] * 4, *rest, *[None] * 4
