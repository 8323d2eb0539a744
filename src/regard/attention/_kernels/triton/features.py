r"""Feature-wise attention with bounded scores on the GPU: no tensor of pairs and features exists.

.. math:: c_{id} = \frac{\sum_j w_{ijd} v_{jd}}{\sum_j w_{ijd}}, \qquad
          w_{ijd} = \exp\!\big(a \tanh((q_{id} + k_{jd}) / c)\big)

Since :math:`w \le e^a`, no maximum is needed, only two running sums over the keys. Backward, one
program per tile of queries loops over the keys, and one per tile of keys over the queries; both
recompute the weights. There are no atomic additions.
"""

from typing import Any

import torch
from torch import Tensor

from regard.attention._kernels import plain
from regard.attention._kernels.triton._features import over_keys, over_queries
from regard.attention._kernels.triton._math import cover, exponentials, fast, power
from regard.native.twice import double_backward, double_backward_wanted

__all__ = ["MOST", "feature_attention"]

MOST = 60.0
"""The largest a: sums of e^a stay far below fp32's end."""
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
    context, _ = _forward(query, key, value, start, stop, mask, scale, bound)
    return context.to(value.dtype)


def _arguments(
    query: Tensor, key: Tensor, value: Tensor, start: Tensor, stop: Tensor, mask: Tensor | None,
    scale: float, bound: float, wide: int,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """What all kernels take first, and what they take last."""
    reach = query.new_zeros((), dtype=torch.float32)
    exp_q = exponentials(query, 2 / scale, reach, 16, wide)
    exp_k = exponentials(key, 2 / scale, reach, 16, wide)
    masks = (
        query.new_zeros((1, 1, 1), dtype=torch.uint8) if mask is None else mask.view(torch.uint8)
    )
    first = [query, key, value, exp_q, exp_k, reach, start, stop, masks]
    strides = [s for x in (query, key, value, start, stop, masks) for s in x.stride()]
    sizes = [query.shape[1], key.shape[1], query.shape[2]]
    padded = [exp_q.shape[1], exp_k.shape[1], exp_q.shape[2]]
    # The derivative of exp(a tanh(x / c)) is 4 a / c times the weight times tanh' / 4.
    return first, [*strides, *sizes, *padded, 2 / scale, bound * _LOG2E, 4 * bound / scale]


@torch.library.custom_op("regard::triton_features", mutates_args=())
def _forward(
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
    batch, queries, dim = query.shape
    context = value.new_empty(batch, queries, dim, dtype=torch.float32)
    total = torch.empty_like(context)
    if context.numel() == 0 or key.shape[1] == 0:
        return context.zero_(), total.zero_()
    wide = min(64, power(dim))
    first, last = _arguments(query, key, value, start, stop, mask, scale, bound, wide)
    with torch.cuda.device_of(query):
        over_keys[(batch * cover(queries, 16), cover(dim, wide))](
            *first, context, total, context, context, *last,
            BT=16, BD=wide, FAST=fast(query), MASKED=mask is not None, BACKWARD=False,
            num_warps=4,
        )  # fmt: skip
    return context, total


@_forward.register_fake
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


@torch.library.custom_op("regard::triton_features_backward", mutates_args=())
def _backward(
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
    grad = grad.contiguous()
    grads = query.new_zeros(query.shape), key.new_zeros(key.shape), value.new_zeros(value.shape)
    if context.numel() == 0 or key.shape[1] == 0:
        return grads
    batch, queries, dim = query.shape
    wide = min(64, power(dim))
    first, last = _arguments(query, key, value, start, stop, mask, scale, bound, wide)
    options = {"BT": 16, "BD": wide, "FAST": fast(query), "MASKED": mask is not None}
    columns = cover(dim, wide)
    with torch.cuda.device_of(query):
        over_keys[(batch * cover(queries, 16), columns)](
            *first, context, total, grad, grads[0], *last, **options, BACKWARD=True, num_warps=4
        )
        over_queries[(batch * cover(key.shape[1], 16), columns)](
            *first, context, total, grad, grads[1], grads[2], *last, **options, num_warps=4
        )
    return grads


@_backward.register_fake
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


def _differentiate(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 8
    if double_backward_wanted():
        inputs = (*ctx.saved_tensors[2:], *ctx.numbers)
        return double_backward(plain.features, inputs, (grad,), ctx.needs_input_grad)
    return (*_backward(grad, *ctx.saved_tensors, *ctx.numbers), *(None,) * 5)


_forward.register_autograd(_differentiate, setup_context=_keep)
