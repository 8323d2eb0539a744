"""The C functions of additive attention, called with tensors of one batch axis."""

from typing import Any

import torch
from torch import Tensor

from regard import native

__all__ = ["attend", "attend_backward", "pack", "refuses", "scores", "scores_backward", "width"]

_SCORES = "pplplpplllllt"
_SCORES_BACKWARD = "pplplppppplllllit"
_ATTEND = "pplplpplplllpfpppllllllt"
_ATTEND_BACKWARD = "pplplpplplllpfppppppppllllllit"
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def refuses(*tensors: Tensor) -> str | None:
    """Why this cannot be done in C, in a clause; with no tensors, why nothing can."""
    lacks = native.lacks("regard_additive_scores", _SCORES)
    if lacks is not None:
        return lacks
    for x in tensors:
        if x.dtype not in _FLOATS:
            return f"{str(x.dtype).removeprefix('torch.')} is not done in C"
        if not x.is_cpu:
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


def scores(query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, heads: int) -> Tensor:
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


def scores_backward(
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


def attend(
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
    lengths = None if lengths is None else lengths.contiguous()
    _call(
        "regard_additive_attend", _ATTEND,
        query.data_ptr(), key.data_ptr(), key_batch, _address(packed), packed_batch, v.data_ptr(),
        value.data_ptr(), value_batch, _address(mask), *strides, _address(lengths), scale,
        context.data_ptr(), _address(weights), _address(sums), batch, queries, keys, dim,
        value_dim, heads, _threads(batch * queries * keys * dim),
    )  # fmt: skip
    return context, weights, sums


def attend_backward(
    query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, value: Tensor,
    mask: Tensor | None, lengths: Tensor | None, scale: float, heads: int,
    weights: Tensor | None, lse: Tensor | None, grad: Tensor, grad_weights: Tensor | None,
    into: tuple[Tensor, bool] | None = None, onto_v: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of query, key, v and value.

    With `into` that of the key is written there, or added where its second says so, and that of
    the value is not made; that of v is then added to `onto_v`, or to zeros.
    """
    (batch, queries, dim), (_, keys, value_dim) = query.shape, value.shape
    grad_key, add = (query.new_empty(key.shape), False) if into is None else into
    grad_value = query.new_empty(value.shape if into is None else 0)
    grad_v = v.new_zeros(v.shape) if onto_v is None else onto_v
    grads = query.new_empty(query.shape), grad_key, grad_v, grad_value
    query, v, grad = query.contiguous(), v.contiguous(), grad.contiguous()
    grad_weights = None if grad_weights is None else grad_weights.contiguous()
    key, key_batch = _rows(key)
    value, value_batch = _rows(value)
    packed, packed_batch = (None, 0) if packed is None else _rows(packed)
    strides = (0, 0, 0) if mask is None else mask.stride()
    lengths = None if lengths is None else lengths.contiguous()
    _call(
        "regard_additive_attend_backward", _ATTEND_BACKWARD,
        query.data_ptr(), key.data_ptr(), key_batch, _address(packed), packed_batch, v.data_ptr(),
        value.data_ptr(), value_batch, _address(mask), *strides, _address(lengths), scale,
        _address(weights), _address(lse), grad.data_ptr(), _address(grad_weights),
        *(g.data_ptr() if g.numel() else 0 for g in grads), batch, queries, keys, dim, value_dim,
        heads, int(add),
        _threads(batch * queries * keys * dim),
    )  # fmt: skip
    return grads
