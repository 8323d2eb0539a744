r"""Feature-wise attention with bounded scores on the GPU: no tensor of pairs and features exists.

.. math:: c_{id} = \frac{\sum_j w_{ijd} v_{jd}}{\sum_j w_{ijd}}, \qquad
          w_{ijd} = \exp\!\big(a \tanh((q_{id} + k_{jd}) / c)\big)

Since :math:`w \le e^a`, no maximum is needed, only two running sums over the keys. Backward, one
program per tile of queries loops over the keys, and one per tile of keys over the queries; both
recompute the weights. There are no atomic additions.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.attention._ops import eager
from regard.attention._ops.triton._features import contexts, gradients
from regard.attention._ops.triton._launch import launch
from regard.attention._ops.triton._math import cover, fast, power
from regard.native.derivatives import double_backward, double_backward_wanted
from regard.native.operators import custom_op

__all__ = ["MOST", "feature_attention"]

MOST = 60.0
"""The largest a: sums of e^a stay far below fp32's end."""
ROWS = 8
"""Of a program's tile. Sixteen rows were as fast on an H200 in some calls, and slower in most."""
_LOG2E = 1.4426950408889634


def feature_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor,
    stop: Tensor,
    mask: Tensor | None,
    scale: float,
    bound: float,
) -> Tensor:
    """The context, in the values' dtype; queries without allowed keys read zeros.

    Args:
        start, stop: the first key of a query's range, and one past its last.
        mask: which of these keys it may look at; None for all.
        scale: c.
        bound: a, at most `MOST`; DiSAN's is c.

    Shapes:
        query (B, Q, D), key (B, K, D), value (B, K, D), start and stop (B, Q) int32, mask
        (B, Q, K) bool, all with any strides, to (B, Q, D)
    """
    if torch.compiler.is_compiling():
        context, _ = _contexts(query, key, value, start, stop, mask, scale, bound)
    else:
        context = _Contexts.apply(query, key, value, start, stop, mask, scale, bound)
    return context.to(value.dtype)


def _rest(
    query: Tensor,
    key: Tensor,
    start: Tensor,
    stop: Tensor,
    mask: Tensor | None,
    scale: float,
    bound: float,
) -> tuple[tuple[int, int], tuple[Any, ...], tuple[Any, ...]]:
    """Tiles and columns, the arguments after the tensors, and the constants."""
    (_, queries, dim), keys = query.shape, key.shape[1]
    wide = min(64, power(dim))
    tiles, columns = cover(max(queries, keys), ROWS), cover(dim, wide)
    strides = (*start.stride(), *stop.stride(), *((0, 0, 0) if mask is None else mask.stride()))
    # The derivative of exp(a tanh(x / c)) is 4 a / c times the weight times tanh' / 4.
    numbers = 2 / scale, bound * _LOG2E, 4 * bound / scale
    constants = ROWS, wide, fast(query), mask is not None
    return (tiles, columns), (*strides, queries, keys, dim, tiles, *numbers), constants


def _run_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor,
    stop: Tensor,
    mask: Tensor | None,
    scale: float,
    bound: float,
) -> tuple[Tensor, Tensor]:
    """Context and the sum of each row's weights, in fp32: the backward pass needs its digits."""
    context = value.new_empty(query.shape, dtype=torch.float32)
    total = torch.empty_like(context)
    if context.numel() == 0 or key.shape[1] == 0:
        return context.zero_(), total.zero_()
    query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
    (tiles, columns), rest, constants = _rest(query, key, start, stop, mask, scale, bound)
    masks = start if mask is None else mask.view(torch.uint8)
    given = query, key, value, start, stop, masks, context, total, *rest
    launch(contexts, (len(query) * tiles, columns, 1), given, constants)
    return context, total


def _run_backward(
    grad: Tensor,
    context: Tensor,
    total: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor,
    stop: Tensor,
    mask: Tensor | None,
    scale: float,
    bound: float,
) -> tuple[Tensor, Tensor, Tensor]:
    if context.numel() == 0 or key.shape[1] == 0:
        return query.new_zeros(query.shape), key.new_zeros(key.shape), value.new_zeros(value.shape)
    query, key, value, grad = (x.contiguous() for x in (query, key, value, grad))
    grads = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
    (tiles, columns), rest, constants = _rest(query, key, start, stop, mask, scale, bound)
    masks = start if mask is None else mask.view(torch.uint8)
    given = query, key, value, start, stop, masks, context, total, grad, *grads, *rest
    launch(gradients, (len(query) * tiles, columns, 2), given, constants)
    return grads


def _differentiate(run: Callable[..., Any], ctx: Any, grad: Tensor | None, *_: Any) -> Any:
    if grad is None:
        return (None,) * 8
    if double_backward_wanted():
        inputs = (*ctx.saved_tensors[2:], *ctx.numbers)
        return double_backward(eager.features, inputs, (grad,), ctx.needs_input_grad)
    return (*run(grad, *ctx.saved_tensors, *ctx.numbers), *(None,) * 5)


class _Contexts(torch.autograd.Function):
    """The operation in eager mode, without the overhead of a custom operator."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        context, total = _run_forward(*inputs)
        _keep(ctx, inputs, (context, total))
        return context

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        return _differentiate(_run_backward, ctx, *grads)


@custom_op("regard::triton_features", mutates_args=())
def _contexts(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor,
    stop: Tensor,
    mask: Tensor | None,
    scale: float,
    bound: float,
) -> tuple[Tensor, Tensor]:
    return _run_forward(query, key, value, start, stop, mask, scale, bound)


@_contexts.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor,
    stop: Tensor,
    mask: Tensor | None,
    scale: float,
    bound: float,
) -> tuple[Tensor, Tensor]:
    context = value.new_empty(query.shape, dtype=torch.float32)
    return context, torch.empty_like(context)


@custom_op("regard::triton_features_backward", mutates_args=())
def _gradients(
    grad: Tensor,
    context: Tensor,
    total: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor,
    stop: Tensor,
    mask: Tensor | None,
    scale: float,
    bound: float,
) -> tuple[Tensor, Tensor, Tensor]:
    inputs = query, key, value, start, stop, mask
    return _run_backward(grad, context, total, *inputs, scale, bound)


@_gradients.register_fake
def _(
    grad: Tensor,
    context: Tensor,
    total: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor,
    stop: Tensor,
    mask: Tensor | None,
    scale: float,
    bound: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output, *inputs[:6])
    ctx.numbers = inputs[6:]
    ctx.set_materialize_grads(False)


_contexts.register_autograd(partial(_differentiate, _gradients), setup_context=_keep)
