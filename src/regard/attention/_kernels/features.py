r"""Feature-wise attention in one pass, forward and backward: (B, Q, K, D) is never stored.

.. math:: c_{id} = \frac{\sum_j w_{ijd}\, v_{jd}}{\sum_j w_{ijd}}, \qquad
          w_{ijd} = \exp\big(a \tanh((q_{id} + k_{jd}) / c)\big)

The scores are bounded by a, so two running sums over the keys suffice. Computed in C
(`native/features.c`) or, if C does not support the call, by blocks of plain PyTorch with the same
memory. The backward pass stores the context and the sum of the weights, and recomputes the rest:

.. math:: \dot v_{jd} = \sum_i \dot c_{id}\, p_{ijd}, \quad
          \dot x_{ijd} = \dot c_{id}\, p_{ijd} (v_{jd} - c_{id})
                         \tfrac{a}{c} (1 - \tanh^2), \quad
          \dot q_{id} = \sum_j \dot x_{ijd}, \quad \dot k_{jd} = \sum_i \dot x_{ijd}
"""

from math import prod
from typing import Any

import torch
from torch import Tensor

from regard import native
from regard.attention._kernels.spans import spans
from regard.attention._ops import eager, triton
from regard.attention._ops.feature_blocks import features_blocks, features_blocks_backward
from regard.attention.call import Attended, Call
from regard.attention.read import FeatureSum
from regard.attention.read.features import check_features
from regard.attention.score import FeatureAdditive
from regard.attention.select import FeatureSoftmax
from regard.native.derivatives import double_backward, double_backward_wanted
from regard.native.gate import Function, Struct
from regard.native.gemm import linear
from regard.native.operators import custom_op

__all__ = ["FeatureWise", "feature_attention"]

_CALL = Struct(
    "features_call",
    "batch = b",
    "queries = q",
    "keys = k",
    "features = d",
    "query: f32 [b q d] last",
    "key: f32 [b k d] last",
    "value: f32 [b k d] last",
    "query_batch = stride query 0",
    "query_row = stride query 1",
    "key_batch = stride key 0",
    "key_row = stride key 1",
    "value_batch = stride value 0",
    "value_row = stride value 1",
    "start: i32? [b q] any",
    "stop: i32? [b q] any",
    "start_batch = stride start 0",
    "start_row = stride start 1",
    "stop_batch = stride stop 0",
    "stop_row = stride stop 1",
    "mask: bool? [b q k] any",
    "mask_batch = stride mask 0",
    "mask_row = stride mask 1",
    "mask_key = stride mask 2",
    "context: f32 [b q d] out",
    "total: f32 [b q d] out",
    "grad: f32? [b q d]",
    "grad_query: f32? [b q d] out",
    "grad_key: f32? [b k d] out",
    "grad_value: f32? [b k d] out",
    "scale: double",
    "bound: double",
    "backward: long",
    "failed: long",
)
_WORK = Function("regard_features", "call: struct features_call", "threads: threads")
BOUND = 20.0
"""The largest |score| whose exponentials are summed as they are: e^-40 keeps all its digits."""


class FeatureWise:
    """`FeatureAdditive`, `FeatureSoftmax` and `FeatureSum` in one pass."""

    name = "features"

    def unsupported_reason(self, call: Call) -> str | None:
        """Other parts, calls that need weights, and scores with a large bound."""
        if type(call.score) is not FeatureAdditive:
            return f"{type(call.score).__name__} is not FeatureAdditive"
        if type(call.select) is not FeatureSoftmax:
            return f"{type(call.select).__name__} is not FeatureSoftmax"
        if type(call.read) is not FeatureSum:
            return f"{type(call.read).__name__} is not FeatureSum"
        if call.read.dropout and call.read.training:
            return "it drops no weights, and its read does while training"
        if call.position is not None:
            return f"{type(call.position).__name__} changes queries, keys or scores"
        if call.carry is not None:
            return f"{type(call.carry).__name__} needs the weights of each step"
        if call.need_weights:
            return "it gives no weights, and need_weights=True"
        reach = call.score.scale / call.select.temperature
        if reach > BOUND:
            return f"its scores reach {reach:g} and it sums exponentials up to e^{BOUND:g}"
        return None

    def backend(self, call: Call) -> str:
        """The implementation, and why it is not C."""
        if call.query is not None and triton.supports(*call.tensors):
            return "Triton, or plain PyTorch where a call is small"
        if native.unavailable_reason(_WORK.name) is not None:
            return f"PyTorch blocks: {native.missing()}"
        if call.query is not None and (why := _tensors_reason(*call.tensors)) is not None:
            return f"PyTorch blocks: {why}"
        return f"C, {native.level()}"

    def run(self, call: Call) -> Attended:
        """Project the queries, convert the mask to spans, and compute."""
        score, select = call.score, call.select
        assert isinstance(score, FeatureAdditive)
        assert isinstance(select, FeatureSoftmax)
        query, _, value = call.tensors
        query, key = linear(score.query, query), call.keys
        check_features(key.shape[-1], value.shape[-1])
        queries, keys = query.shape[-2], key.shape[-2]
        start, stop, rest = spans(call.mask, queries, call.at, query.device)
        mask = None
        if rest is not None:
            mask = rest.dense(queries, keys, at=call.at, device=query.device)
        context = feature_attention(
            query,
            key,
            value,
            start,
            stop,
            mask,
            scale=score.scale,
            bound=score.scale / select.temperature,
        )
        return Attended(context)


def feature_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor | None = None,
    stop: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    scale: float,
    bound: float,
) -> Tensor:
    """The context of projected queries and keys, in the dtype of the values.

    Args:
        start, stop: the first key of each query and one past its last, int32; None: no limit.
        mask: which of these keys it may look at; None: all.
        scale: c.
        bound: a.

    Shapes:
        query (*batch, Q, D), key and value (*batch, K, D), start and stop (*batch, Q),
        mask (*batch, Q, K) to (*batch, Q, D); batch axes (and those of the last three) broadcast
    """
    kind = value.dtype
    dtype = torch.promote_types(torch.promote_types(query.dtype, key.dtype), kind)
    if dtype in (torch.float16, torch.bfloat16):
        dtype = torch.float32
    queries, keys, features = query.shape[-2], key.shape[-2], value.shape[-1]
    limits = [x.shape[:-1] for x in (start, stop) if x is not None]
    if mask is not None:
        limits.append(mask.shape[:-2])
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2], *limits)
    rows = prod(batch)
    if start is not None:
        start = start.expand(*batch, queries).reshape(rows, queries)
    if stop is not None:
        stop = stop.expand(*batch, queries).reshape(rows, queries)
    if mask is not None:
        mask = mask.expand(*batch, queries, keys).reshape(rows, queries, keys)
    flat = (
        query.to(dtype).expand(*batch, queries, features).reshape(rows, queries, features),
        key.to(dtype).expand(*batch, keys, features).reshape(rows, keys, features),
        value.to(dtype).expand(*batch, keys, features).reshape(rows, keys, features),
    )
    if triton.supports(*flat):
        context = _on_gpu(*flat, start, stop, mask, scale, bound)
    else:
        context, _ = _forward(*flat, start, stop, mask, scale, bound)
    context = context.reshape(*batch, queries, features)
    return context.to(kind)


def _on_gpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor | None,
    stop: Tensor | None,
    mask: Tensor | None,
    scale: float,
    bound: float,
) -> Tensor:
    if not triton.worthwhile(query, key):
        return eager.features(query, key, value, start, stop, mask, scale, bound)
    rows = query.new_zeros(query.shape[:2], dtype=torch.int32)
    start = rows if start is None else start
    stop = rows + key.shape[1] if stop is None else stop
    return triton.feature_attention(query, key, value, start, stop, mask, scale, bound)


@custom_op("regard::features", mutates_args=())
def _forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor | None,
    stop: Tensor | None,
    mask: Tensor | None,
    scale: float,
    bound: float,
) -> tuple[Tensor, Tensor]:
    """Context and the sums of w e^-a, both (B, Q, D)."""
    if not _native(query):
        return features_blocks(query, key, value, start, stop, mask, scale, bound)
    query, key, value = _rows(query), _rows(key), _rows(value)
    context, total = query.new_empty(query.shape), query.new_empty(query.shape)
    call = _CALL(
        query,
        key,
        value,
        start,
        stop,
        mask,
        context,
        total,
        None,
        None,
        None,
        None,
        scale,
        bound,
        0,
        0,
    )
    _run(call)
    return context, total


@_forward.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor | None,
    stop: Tensor | None,
    mask: Tensor | None,
    scale: float,
    bound: float,
) -> tuple[Tensor, Tensor]:
    return query.new_empty(query.shape), query.new_empty(query.shape)


@custom_op("regard::features_backward", mutates_args=())
def _backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor | None,
    stop: Tensor | None,
    mask: Tensor | None,
    context: Tensor,
    total: Tensor,
    scale: float,
    bound: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value."""
    if not _native(query):
        return features_blocks_backward(
            grad, query, key, value, start, stop, mask, context, total, scale, bound
        )
    grad, query, key, value = grad.contiguous(), _rows(query), _rows(key), _rows(value)
    context, total = context.contiguous(), total.contiguous()
    grads = query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)
    call = _CALL(
        query, key, value, start, stop, mask, context, total, grad, *grads, scale, bound, 1, 0
    )
    _run(call)
    return grads


@_backward.register_fake
def _(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor | None,
    stop: Tensor | None,
    mask: Tensor | None,
    context: Tensor,
    total: Tensor,
    scale: float,
    bound: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.scale, ctx.bound = inputs
    ctx.save_for_backward(*tensors, *output)


def _grads(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    *inputs, context, total = ctx.saved_tensors
    if double_backward_wanted():
        given = (*inputs, ctx.scale, ctx.bound)
        return double_backward(eager.features, given, (grad,), ctx.needs_input_grad)
    grads = _backward(grad, *inputs, context, total, ctx.scale, ctx.bound)
    return (*grads, None, None, None, None, None)


_forward.register_autograd(_grads, setup_context=_save)


def _native(query: Tensor) -> bool:
    """Whether C is available and supports these tensors."""
    return _tensors_reason(query) is None and native.unavailable_reason(_WORK.name) is None


def _tensors_reason(*tensors: Tensor) -> str | None:
    """Why C does not support these tensors, or None."""
    for x in tensors:
        if x.device.type != "cpu":
            return f"its tensors are on {x.device.type}"
        if x.dtype == torch.float64:
            return "it computes in float32, and the tensors are float64"
    return None


def _rows(x: Tensor) -> Tensor:
    """A tensor with contiguous features, as C reads it."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _run(call: Any) -> None:
    pairs = call.batch * call.queries * call.keys * call.features
    _WORK(call, native.threads(pairs))
