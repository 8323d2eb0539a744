"""Additive attention in C, as PyTorch operators; `additive.h` says how it is computed.

Three roads lead to the same C call: straight, where nothing is differentiated; an autograd
function; and operators of `torch.library`, which a compiler or an exporter can put in its graph.
The first two are there because an operator written in Python costs 10 to 16 us a call, and a
decoder step in C two.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention._kernels import native

__all__ = ["attend", "pack", "refuses", "scores"]

KEPT = 1 << 21
"""Weights (8 MiB of them) up to which the backward pass keeps them; beyond, it makes them again."""

_SCORES = "pplplpplllllt"
_SCORES_BACKWARD = "pplplppppplllllit"
_ATTEND = "pplplpplplllpfpppllllllt"
_ATTEND_BACKWARD = "pplplpplplllpfppppppppllllllit"
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def refuses(*tensors: Tensor) -> str | None:
    """Why this cannot be done in C, in a clause; with no tensors, why nothing can."""
    if native.function("regard_additive_scores", _SCORES) is None:
        return f"no C, {native.missing() or 'additive.c is not in it'}"
    for x in tensors:
        if x.dtype not in _FLOATS:
            return f"{str(x.dtype).removeprefix('torch.')} is not done in C"
        if x.device.type != "cpu":
            return f"C is not for {x.device.type}"
    return None


def width(dim: int) -> int:
    """How many floats a packed key has: `dim` rounded up to 32, and 16 more."""
    return (dim + 31) // 32 * 32 + 16


def pack(key: Tensor) -> Tensor:
    """What the kernel makes of keys: e^2k, padded with zeros, and the largest |k| behind.

    Shapes:
        key (*batch, K, D) to (*batch, K, width(D)), without gradient
    """
    key = key.detach().float().contiguous()
    packed = key.new_empty(*key.shape[:-1], width(key.shape[-1]))
    function = native.function("regard_additive_pack", "ppllt")
    assert function is not None
    rows = packed.numel() // packed.shape[-1]
    function(key.data_ptr(), packed.data_ptr(), rows, key.shape[-1], _threads(packed.numel()))
    return packed


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
        made: Tensor = _scores_op(query, key, packed, v, heads)
    elif torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or v.requires_grad):
        made = _Scores.apply(query, key, packed, v, heads)  # type: ignore[no-untyped-call]
    else:
        made = _scores(query, key, packed, v, heads)
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
    """The whole attention in float32: scores, mask, softmax of `scale` times them, weighted sum.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D), v (D,) or (heads, D), value (*batch, K, Dv),
        mask: bool, broadcasts to (*batch, Q, K); lengths: integers, broadcast to (*batch);
        context (*batch, Q, Dv), weights (*batch, Q, K)
    """
    batch = query.shape[:-2]
    if not batch == key.shape[:-2] == value.shape[:-2]:
        batch = torch.broadcast_shapes(batch, key.shape[:-2], value.shape[:-2])
    query, key, packed = _flat(query, batch), _flat(key, batch), _flat_packed(packed, key, batch)
    value, v = _flat(value, batch), v.float()
    if mask is not None:
        sizes = (query.shape[-2], key.shape[-2])
        mask = mask.expand(*batch, *sizes)
        if len(batch) != 1:
            mask = mask.reshape(-1, *sizes)
    if lengths is not None:
        lengths = lengths.expand(batch).reshape(-1).to(torch.int64)
    inputs = (query, key, packed, v, value, mask, lengths, scale, heads)
    weights: Tensor | None
    if _traced(query, key, v, value):
        context, weights, _ = _attend_op(*inputs, need_weights)
    elif torch.is_grad_enabled() and (
        query.requires_grad or key.requires_grad or v.requires_grad or value.requires_grad
    ):
        context, weights = _Attend.apply(*inputs, need_weights)  # type: ignore[no-untyped-call]
    else:
        context, weights, _ = _attend(*inputs, need_weights, False)
    if len(batch) != 1:
        context = context.reshape(*batch, *context.shape[-2:])
        weights = weights.reshape(*batch, *weights.shape[-2:]) if need_weights else None  # type: ignore[union-attr]
    return context, weights if need_weights else None


def _traced(*tensors: Tensor) -> bool:
    """Whether somebody follows the call who must see an operator: a compiler, or `torch.func`."""
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or any(type(x) is not Tensor and not isinstance(x, torch.nn.Parameter) for x in tensors)
    )


def _flat(x: Tensor, batch: torch.Size) -> Tensor:
    """In float32, with one batch axis."""
    if x.dtype != torch.float32:
        x = x.float()
    if x.dim() == 3 and x.shape[:-2] == batch:
        return x
    return x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:])


def _flat_packed(packed: Tensor | None, key: Tensor, batch: torch.Size) -> Tensor | None:
    """Packed keys with one batch axis; None where a cast or a move made them something else."""
    if packed is None or packed.dtype != torch.float32 or packed.shape[-1] != width(key.shape[-1]):
        return None
    return _flat(packed, batch)


def _rows(x: Tensor) -> tuple[Tensor, int]:
    """X with its rows side by side, and the stride of the batch."""
    if x.is_contiguous():
        return x, x.shape[1] * x.shape[2]
    strides = x.stride()
    if strides[2] == 1 and strides[1] == x.shape[2]:
        return x, strides[0]
    x = x.contiguous()
    return x, x.shape[1] * x.shape[2]


def _threads(work: int) -> int:
    return native.threads(work // 16)


def _call(name: str, letters: str, *arguments: Any) -> None:
    function = native.function(name, letters)
    if function is None:
        raise RuntimeError(f"{name} was traced where C was to be had, and here it is not")
    if function(*arguments) != 0:
        raise MemoryError(f"{name} found no memory for its blocks")


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x.data_ptr()


def _scores(query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, heads: int) -> Tensor:
    (batch, queries, dim), keys = query.shape, key.shape[1]
    made = query.new_empty(batch, queries, keys)
    query, v = query.contiguous(), v.contiguous()
    key, key_batch = _rows(key)
    packed, packed_batch = (None, 0) if packed is None else _rows(packed)
    _call(
        "regard_additive_scores", _SCORES,
        query.data_ptr(), key.data_ptr(), key_batch, _address(packed), packed_batch, v.data_ptr(),
        made.data_ptr(), batch, queries, keys, dim, heads, _threads(made.numel() * dim),
    )  # fmt: skip
    return made


def _scores_backward(
    query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, grad: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    (batch, queries, dim), keys = query.shape, key.shape[1]
    grads = query.new_empty(query.shape), query.new_empty(key.shape), query.new_empty(v.shape)
    query, v, grad = query.contiguous(), v.contiguous(), grad.contiguous()
    key, key_batch = _rows(key)
    packed, packed_batch = (None, 0) if packed is None else _rows(packed)
    _call(
        "regard_additive_scores_backward", _SCORES_BACKWARD,
        query.data_ptr(), key.data_ptr(), key_batch, _address(packed), packed_batch, v.data_ptr(),
        grad.data_ptr(), *(g.data_ptr() for g in grads), batch, queries, keys, dim, heads, 0,
        _threads(grad.numel() * dim),
    )  # fmt: skip
    return grads


def _attend(
    query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, value: Tensor,
    mask: Tensor | None, lengths: Tensor | None, scale: float, heads: int, keep: bool, lse: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    (batch, queries, dim), (_, keys, value_dim) = query.shape, value.shape
    context = query.new_empty(batch, queries, value_dim)
    weights = query.new_empty(batch, queries, keys) if keep else None
    sums = query.new_empty(batch, queries) if lse else None
    query, v = query.contiguous(), v.contiguous()
    key, key_batch = _rows(key)
    value, value_batch = _rows(value)
    packed, packed_batch = (None, 0) if packed is None else _rows(packed)
    strides = (0, 0, 0) if mask is None else mask.stride()
    _call(
        "regard_additive_attend", _ATTEND,
        query.data_ptr(), key.data_ptr(), key_batch, _address(packed), packed_batch, v.data_ptr(),
        value.data_ptr(), value_batch, _address(mask), *strides, _address(lengths), scale,
        context.data_ptr(), _address(weights), _address(sums), batch, queries, keys, dim,
        value_dim, heads, _threads(batch * queries * keys * dim),
    )  # fmt: skip
    return context, weights, sums


def _attend_backward(
    query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, value: Tensor,
    mask: Tensor | None, lengths: Tensor | None, scale: float, heads: int,
    weights: Tensor | None, lse: Tensor | None, grad: Tensor, grad_weights: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    (batch, queries, dim), (_, keys, value_dim) = query.shape, value.shape
    shapes = (query.shape, key.shape, v.shape, value.shape)
    grads = tuple(query.new_empty(shape) for shape in shapes)
    query, v, grad = query.contiguous(), v.contiguous(), grad.contiguous()
    grad_weights = None if grad_weights is None else grad_weights.contiguous()
    key, key_batch = _rows(key)
    value, value_batch = _rows(value)
    packed, packed_batch = (None, 0) if packed is None else _rows(packed)
    strides = (0, 0, 0) if mask is None else mask.stride()
    _call(
        "regard_additive_attend_backward", _ATTEND_BACKWARD,
        query.data_ptr(), key.data_ptr(), key_batch, _address(packed), packed_batch, v.data_ptr(),
        value.data_ptr(), value_batch, _address(mask), *strides, _address(lengths), scale,
        _address(weights), _address(lse), grad.data_ptr(), _address(grad_weights),
        *(g.data_ptr() for g in grads), batch, queries, keys, dim, value_dim, heads, 0,
        _threads(batch * queries * keys * dim),
    )  # fmt: skip
    return grads  # type: ignore[return-value]


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, heads: int
    ) -> Tensor:
        ctx.save_for_backward(query, key, packed, v)
        ctx.heads = heads
        return _scores(query, key, packed, v, heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, packed, v = ctx.saved_tensors
        found = _scores_backward(query, key, packed, v, grads[0], ctx.heads)
        return found[0], found[1], None, found[2], None


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor | None]:
        query, key, packed, v, value, mask, lengths, scale, heads, need_weights = inputs
        keep = need_weights or query.shape[0] * query.shape[1] * key.shape[1] <= KEPT
        context, weights, lse = _attend(
            query, key, packed, v, value, mask, lengths, scale, heads, keep, not keep
        )
        ctx.save_for_backward(query, key, packed, v, value, mask, lengths, weights, lse)
        ctx.rest = scale, heads
        ctx.set_materialize_grads(False)
        return context, weights if need_weights else None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        *inputs, weights, lse = ctx.saved_tensors
        (scale, heads), grad = ctx.rest, grads[0]
        if grad is None:
            query, value = inputs[0], inputs[4]
            grad = query.new_zeros(*query.shape[:2], value.shape[2])
        made = _attend_backward(*inputs, scale, heads, weights, lse, grad, grads[1])
        return made[0], made[1], None, *made[2:], None, None, None, None, None


@torch.library.custom_op("regard::additive_scores", mutates_args=(), device_types="cpu")
def _scores_op(query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, heads: int) -> Tensor:
    return _scores(query, key, packed, v, heads)


@_scores_op.register_fake
def _(query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, heads: int) -> Tensor:
    return query.new_empty(query.shape[0], query.shape[1], key.shape[1])


@torch.library.custom_op("regard::additive_scores_backward", mutates_args=(), device_types="cpu")
def _scores_backward_op(
    query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, grad: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    return _scores_backward(query, key, packed, v, grad, heads)


@_scores_backward_op.register_fake
def _(
    query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, grad: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), query.new_empty(key.shape), query.new_empty(v.shape)


def _save_scores(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.heads = inputs
    ctx.save_for_backward(*tensors)


def _scores_grad(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    query, key, packed, v = ctx.saved_tensors
    found = _scores_backward_op(query, key, packed, v, grad, ctx.heads)
    return found[0], found[1], None, found[2], None


_scores_op.register_autograd(_scores_grad, setup_context=_save_scores)


@torch.library.custom_op("regard::additive_attend", mutates_args=(), device_types="cpu")
def _attend_op(
    query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, value: Tensor,
    mask: Tensor | None, lengths: Tensor | None, scale: float, heads: int, keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    context, weights, lse = _attend(
        query, key, packed, v, value, mask, lengths, scale, heads, keep, True
    )
    assert lse is not None
    return context, query.new_empty(0) if weights is None else weights, lse


@_attend_op.register_fake
def _(
    query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, value: Tensor,
    mask: Tensor | None, lengths: Tensor | None, scale: float, heads: int, keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    batch, queries = query.shape[:2]
    weights = query.new_empty(batch, queries, key.shape[1]) if keep else query.new_empty(0)
    context = query.new_empty(batch, queries, value.shape[2])
    return context, weights, query.new_empty(batch, queries)


@torch.library.custom_op("regard::additive_attend_backward", mutates_args=(), device_types="cpu")
def _attend_backward_op(
    query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, value: Tensor,
    mask: Tensor | None, lengths: Tensor | None, scale: float, heads: int,
    weights: Tensor | None, lse: Tensor | None, grad: Tensor, grad_weights: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    return _attend_backward(
        query, key, packed, v, value, mask, lengths, scale, heads, weights, lse, grad, grad_weights
    )


@_attend_backward_op.register_fake
def _(
    query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, value: Tensor,
    mask: Tensor | None, lengths: Tensor | None, scale: float, heads: int,
    weights: Tensor | None, lse: Tensor | None, grad: Tensor, grad_weights: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    shapes = (query.shape, key.shape, v.shape, value.shape)
    return tuple(query.new_empty(shape) for shape in shapes)  # type: ignore[return-value]


def _save_attend(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    *tensors, scale, heads, keep = inputs
    ctx.save_for_backward(*tensors, *output[1:])
    ctx.rest, ctx.keep = (scale, heads), keep


def _attend_grad(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    *inputs, weights, lse = ctx.saved_tensors
    kept = (weights, None, grads[0], grads[1]) if ctx.keep else (None, lse, grads[0], None)
    query, key, v, value = _attend_backward_op(*inputs, *ctx.rest, *kept)
    return query, key, None, v, value, None, None, None, None, None


_attend_op.register_autograd(_attend_grad, setup_context=_save_attend)
