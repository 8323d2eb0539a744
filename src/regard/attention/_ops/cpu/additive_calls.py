"""The C functions of additive attention, called with tensors of one batch axis."""

import torch
from torch import Tensor

from regard import native
from regard.native.gate import Function, Struct
from regard.native.operation import operation

__all__ = [
    "MEMORY",
    "STEP",
    "attend",
    "attend_backward",
    "pack",
    "scores",
    "scores_backward",
    "unsupported_reason",
    "width",
]

_WIDTH = "{(d + 31) // 32 * 32 + 16}"
_KEYS = (
    "query: f32 [b q d]",
    "key: f32 [b k d] rows",
    "stride key 0",
    f"packed: f32? [b k {_WIDTH}] rows",
    "stride packed 0",
    "v: f32 ({heads * d})",
)
_MEMORY = (
    "value: f32 [b k e] rows",
    "stride value 0",
    "mask: bool? [b q k] any",
    "stride mask 0",
    "stride mask 1",
    "stride mask 2",
    "lengths: i64? [b]",
    "scale: float",
)
_PACK = Function(
    "regard_additive_pack",
    "key: f32 [n d]",
    f"packed: f32 [n {_WIDTH}] out",
    "n",
    "d",
    "threads: threads",
)
_SCORES = Function(
    "regard_additive_scores",
    *_KEYS,
    "scores: f32 [b q k] out",
    "b",
    "q",
    "k",
    "d",
    "heads: long",
    "threads: threads",
)
_SCORES_BACKWARD = Function(
    "regard_additive_scores_backward",
    *_KEYS,
    "grad: f32 [b q k]",
    "grad_query: f32 [b q d] out",
    "grad_key: f32 [b k d] out",
    "grad_v: f32 ({heads * d}) out",
    "b",
    "q",
    "k",
    "d",
    "heads: long",
    "add: int",
    "threads: threads",
)
_ATTEND = Function(
    "regard_additive_attend",
    *_KEYS,
    *_MEMORY,
    "context: f32 [b q e] out",
    "weights: f32? [b q k] out",
    "lse: f32? [b q] out",
    "b",
    "q",
    "k",
    "d",
    "e",
    "heads: long",
    "threads: threads",
)
_ATTEND_BACKWARD = Function(
    "regard_additive_attend_backward",
    *_KEYS,
    *_MEMORY,
    "weights: f32? [b q k]",
    "lse: f32? [b q]",
    "grad: f32 [b q e]",
    "grad_weights: f32? [b q k]",
    "grad_query: f32 [b q d] out",
    "grad_key: f32 [b k d] out",
    "grad_v: f32 ({heads * d}) out",
    "grad_value: f32? [b k e] out",
    "b",
    "q",
    "k",
    "d",
    "e",
    "heads: long",
    "add: int",
    "threads: threads",
)
MEMORY = Struct(
    "additive_memory",
    "key: f32 [b k d] rows",
    "key_batch = stride key 0",
    f"packed: f32 [b k {_WIDTH}] rows",
    "packed_batch = stride packed 0",
    "value: f32 [b k e] rows",
    "value_batch = stride value 0",
    "lengths: i64? [b]",
    "batch = b",
    "keys = k",
    "dim = d",
    "value_dim = e",
)
STEP = Function(
    "regard_additive_step",
    "memory: struct additive_memory",
    "query: f32 [{memory.batch} q {memory.dim}]",
    "v: f32 [{memory.dim}]",
    "context: f32 [{memory.batch} q {memory.value_dim}] out",
    "q",
    "scale: float",
    "threads: threads",
)
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def unsupported_reason(*tensors: Tensor) -> str | None:
    """Why C does not support a call with these tensors (or any call), in a clause, or None."""
    reason = native.unavailable_reason("regard_additive_scores")
    if reason is not None:
        return reason
    for x in tensors:
        if x.dtype not in _FLOATS:
            return f"{str(x.dtype).removeprefix('torch.')} is not supported in C"
        if not x.is_cpu:
            return f"its tensors are on {x.device.type}, and C runs on the CPU"
    return None


def width(dim: int) -> int:
    """The number of floats of a packed key: `dim` rounded up to 32, plus 16."""
    return (dim + 31) // 32 * 32 + 16


@operation("pack")
def pack(key: Tensor) -> Tensor:
    """Keys packed for the kernel: e^2k, padded with zeros, and the largest |k|.

    Shapes:
        key (*batch, K, D) to (*batch, K, width(D)), without gradient
    """
    key = key.detach().float().contiguous()
    packed = key.new_empty(*key.shape[:-1], width(key.shape[-1]))
    rows = key.shape[:-1].numel()
    flat = packed.view(rows, packed.shape[-1])
    _PACK(key.view(rows, key.shape[-1]), flat, _threads(packed.numel()))
    return packed


def _rows(x: Tensor) -> Tensor:
    """X with contiguous rows in each batch."""
    if x.is_contiguous():
        return x
    strides = x.stride()
    return x if strides[2] == 1 and strides[1] == x.shape[2] else x.contiguous()


def _threads(work: int) -> int:
    return native.threads(work // 16)


def scores(query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, heads: int) -> Tensor:
    (batch, queries, dim), keys = query.shape, key.shape[1]
    made = query.new_empty(batch, queries, keys)
    query, v = query.contiguous(), v.contiguous()
    key, packed = _rows(key), None if packed is None else _rows(packed)
    _SCORES(query, key, packed, v, made, heads, _threads(made.numel() * dim))
    return made


def scores_backward(
    query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, grad: Tensor, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    grads = query.new_empty(query.shape), query.new_empty(key.shape), query.new_empty(v.shape)
    query, v, grad = query.contiguous(), v.contiguous(), grad.contiguous()
    key, packed = _rows(key), None if packed is None else _rows(packed)
    threads = _threads(grad.numel() * query.shape[2])
    _SCORES_BACKWARD(query, key, packed, v, grad, *grads, heads, 0, threads)
    return grads


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
    lse: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    (batch, queries, dim), (_, keys, value_dim) = query.shape, value.shape
    context = query.new_empty(batch, queries, value_dim)
    weights = query.new_empty(batch, queries, keys) if keep else None
    sums = query.new_empty(batch, queries) if lse else None
    query, v = query.contiguous(), v.contiguous()
    key, value, packed = _rows(key), _rows(value), None if packed is None else _rows(packed)
    lengths = None if lengths is None else lengths.contiguous()
    _ATTEND(
        query,
        key,
        packed,
        v,
        value,
        mask,
        lengths,
        scale,
        context,
        weights,
        sums,
        heads,
        _threads(batch * queries * keys * dim),
    )
    return context, weights, sums


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
    into: tuple[Tensor, bool] | None = None,
    onto_v: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of query, key, v and value.

    With `into` the gradient of the key is written to its tensor, or added if its flag is set; the
    gradient of the value is not computed, and that of v is added to `onto_v`, or to zeros.
    """
    (batch, queries, dim), keys = query.shape, key.shape[1]
    grad_key, add = (query.new_empty(key.shape), False) if into is None else into
    grad_value = query.new_empty(value.shape if into is None else 0)
    grad_v = v.new_zeros(v.shape) if onto_v is None else onto_v
    grads = query.new_empty(query.shape), grad_key, grad_v, grad_value
    query, v, grad = query.contiguous(), v.contiguous(), grad.contiguous()
    grad_weights = None if grad_weights is None else grad_weights.contiguous()
    key, value, packed = _rows(key), _rows(value), None if packed is None else _rows(packed)
    lengths = None if lengths is None else lengths.contiguous()
    _ATTEND_BACKWARD(
        query,
        key,
        packed,
        v,
        value,
        mask,
        lengths,
        scale,
        weights,
        lse,
        grad,
        grad_weights,
        *grads[:3],
        grad_value if into is None else None,
        heads,
        add,
        _threads(batch * queries * keys * dim),
    )
    return grads
