"""Additive attention as operators of `torch.library`, for compilers and exporters."""

from typing import Any

from torch import Tensor

from regard.attention._ops.cpu import additive_calls as calls
from regard.attention._ops.cpu.additive_grad import attend_again, scores_again
from regard.native.derivatives import double_backward, double_backward_wanted
from regard.native.operators import custom_op

__all__ = ["attend", "scores"]


@custom_op("regard::additive_scores", mutates_args=(), device_types="cpu")
def scores(query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, heads: int) -> Tensor:
    return calls.scores(query, key, packed, v, heads)


@scores.register_fake
def _(query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, heads: int) -> Tensor:
    return query.new_empty(query.shape[0], query.shape[1], key.shape[1])


@custom_op("regard::additive_scores_backward", mutates_args=(), device_types="cpu")
def scores_backward(
    query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, grad: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    return calls.scores_backward(query, key, packed, v, grad, heads)


@scores_backward.register_fake
def _(
    query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, grad: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), query.new_empty(key.shape), query.new_empty(v.shape)


def _save_scores(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.heads = inputs
    ctx.save_for_backward(*tensors)


def _scores_grad(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    query, key, packed, v = ctx.saved_tensors
    if double_backward_wanted():
        inputs = (query, key, packed, v, ctx.heads)
        return double_backward(scores_again, inputs, (grad,), ctx.needs_input_grad)
    found = scores_backward(query, key, packed, v, grad, ctx.heads)
    return found[0], found[1], None, found[2], None


scores.register_autograd(_scores_grad, setup_context=_save_scores)


@custom_op("regard::additive_attend", mutates_args=(), device_types="cpu")
def attend(
    query: Tensor,
    key: Tensor,
    packed: Tensor | None,
    v: Tensor,
    value: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    scale: float,
    heads: int,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    context, weights, lse = calls.attend(
        query, key, packed, v, value, mask, lengths, scale, heads, keep, True
    )
    assert lse is not None
    return context, query.new_empty(0) if weights is None else weights, lse


@attend.register_fake
def _(
    query: Tensor,
    key: Tensor,
    packed: Tensor | None,
    v: Tensor,
    value: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    scale: float,
    heads: int,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    batch, queries = query.shape[:2]
    weights = query.new_empty(batch, queries, key.shape[1]) if keep else query.new_empty(0)
    context = query.new_empty(batch, queries, value.shape[2])
    return context, weights, query.new_empty(batch, queries)


@custom_op("regard::additive_attend_backward", mutates_args=(), device_types="cpu")
def attend_backward(
    query: Tensor,
    key: Tensor,
    packed: Tensor | None,
    v: Tensor,
    value: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    scale: float,
    heads: int,
    weights: Tensor | None,
    lse: Tensor | None,
    grad: Tensor,
    grad_weights: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return calls.attend_backward(
        query, key, packed, v, value, mask, lengths, scale, heads, weights, lse, grad, grad_weights
    )


@attend_backward.register_fake
def _(
    query: Tensor,
    key: Tensor,
    packed: Tensor | None,
    v: Tensor,
    value: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    scale: float,
    heads: int,
    weights: Tensor | None,
    lse: Tensor | None,
    grad: Tensor,
    grad_weights: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shapes = (query.shape, key.shape, v.shape, value.shape)
    return tuple(query.new_empty(shape) for shape in shapes)  # type: ignore[return-value]


def _save_attend(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    *tensors, scale, heads, keep = inputs
    ctx.save_for_backward(*tensors, *output[1:])
    ctx.rest, ctx.keep = (scale, heads), keep


def _attend_grad(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    *inputs, weights, lse = ctx.saved_tensors
    if double_backward_wanted():
        given = grads[: 2 if ctx.keep else 1]
        return double_backward(attend_again, (*inputs, *ctx.rest), given, ctx.needs_input_grad)
    kept = (weights, None, grads[0], grads[1]) if ctx.keep else (None, lse, grads[0], None)
    query, key, v, value = attend_backward(*inputs, *ctx.rest, *kept)
    return query, key, None, v, value, None, None, None, None, None


attend.register_autograd(_attend_grad, setup_context=_save_attend)
