r"""Additive scores on the GPU: nothing of size (B, Q, K, D) exists, forward or backward.

.. math:: e_{ij} = \sum_d v_d \tanh(q_{id} + k_{jd})

Forward: a program keeps a tile of scores in registers and loops over d. Backward: one program per
tile of one input's gradient, which loops over the other input. Partial results of several programs
for one tile, and the gradient of v, are summed afterwards. No output is written by two programs, so
there are no atomic additions and results are deterministic. All arithmetic is in fp32.

Of a small call the launches cost most: there are two forward, of which the first transposes and
exponentiates both inputs, and two backward, of which the second sums v's gradient.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.attention._ops import eager
from regard.attention._ops.triton._launch import kernel, launch
from regard.attention._ops.triton._math import (
    FACTORED,
    NEAR,
    PLAIN,
    cover,
    fast,
    mode,
    power,
    raised,
    rows_reach,
    rows_size,
    splits,
    squash,
)
from regard.attention._ops.triton._transposed import transposed
from regard.native.derivatives import double_backward, double_backward_wanted
from regard.native.operators import custom_op

__all__ = ["additive_scores"]


@triton.jit
def _walk_features(
    q,
    k,
    v,
    Q,
    K,
    D,
    seen_q,
    seen_k,
    BQ: tl.constexpr,
    BK: tl.constexpr,
    MODE: tl.constexpr,
    FAST: tl.constexpr,
):
    """A tile of scores; q and k point at feature 0, of exponentials where FACTORED."""
    scores = tl.zeros((BQ, BK), tl.float32)
    for _ in range(D):
        a = tl.load(q, mask=seen_q, other=0.0)
        b = tl.load(k, mask=seen_k, other=0.0)
        if MODE != FACTORED:
            a *= 2.0
            b *= 2.0
        t, _ = squash(a[:, None], b[None, :], MODE, FAST, False)
        scores += tl.load(v).to(tl.float32) * t
        q += Q
        k += K
        v += 1
    return scores


@kernel
def _forward(
    q, k, exp_q, exp_k, v, out, Q, K, D, H, BQ: tl.constexpr, BK: tl.constexpr, FAST: tl.constexpr
):
    """A tile of scores; inputs lie as (N, D, T): a feature of neighbors is read at once."""
    tiles = tl.cdiv(Q, BQ)
    n = (tl.program_id(0) // tiles).to(tl.int64)
    i = (tl.program_id(0) % tiles) * BQ + tl.arange(0, BQ)
    j = tl.program_id(1) * BK + tl.arange(0, BK)
    seen_q, seen_k = i < Q, j < K
    at_q, at_k = n * D * Q + i, n * D * K + j
    v += (n % H) * D
    reach = rows_reach(exp_q + at_q, Q, D, seen_q, BQ)
    m = mode(tl.maximum(reach, rows_reach(exp_k + at_k, K, D, seen_k, BK)))
    if m == FACTORED:
        scores = _walk_features(
            exp_q + at_q, exp_k + at_k, v, Q, K, D, seen_q, seen_k, BQ, BK, FACTORED, FAST
        )
    elif m == NEAR:
        scores = _walk_features(q + at_q, k + at_k, v, Q, K, D, seen_q, seen_k, BQ, BK, NEAR, FAST)
    else:
        scores = _walk_features(q + at_q, k + at_k, v, Q, K, D, seen_q, seen_k, BQ, BK, PLAIN, FAST)
    at = out + (n * Q + i[:, None]) * K + j[None, :]
    tl.store(at, scores, mask=seen_q[:, None] & seen_k[None, :])


@triton.jit
def _walk_others(
    own,
    other,
    grad,
    D,
    step,
    count,
    seen,
    seen_d,
    BT: tl.constexpr,
    BD: tl.constexpr,
    MODE: tl.constexpr,
    FAST: tl.constexpr,
    WITH_V: tl.constexpr,
):
    """Sums over the other input's rows of grad tanh' / 4 and, WITH_V, of grad tanh."""
    slopes = tl.zeros((BT, BD), tl.float32)
    levels = tl.zeros((BT, BD), tl.float32)
    for _ in range(count):
        b = 2.0 * tl.load(other, mask=seen_d, other=0.0).to(tl.float32)
        if MODE == FACTORED:
            b = raised(b)
        g = tl.load(grad, mask=seen, other=0.0)
        t, slope = squash(own, b[None, :], MODE, FAST, True)
        slopes += g[:, None] * slope
        if WITH_V:
            levels += g[:, None] * t
        other += D
        grad += step
    return slopes, levels


@triton.jit
def _tile(
    own,
    other,
    v,
    grad,
    out,
    out_v,
    T,
    S,
    D,
    H,
    next_own,
    next_other,
    share,
    tiles,
    BT: tl.constexpr,
    BD: tl.constexpr,
    FAST: tl.constexpr,
    WITH_V: tl.constexpr,
):
    """A tile of one input's gradient (`own`, T rows), from `share` of the other's S rows.

    A number of the scores' gradient lies `next_own` before that of the next row of this input,
    and `next_other` before that of the other's.
    """
    n = (tl.program_id(0) // tiles).to(tl.int64)
    place = (tl.program_id(0) % tiles).to(tl.int64)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    part = (tl.program_id(2) // 2).to(tl.int64)
    first = part * share
    count = tl.minimum(S - first, share).to(tl.int32)
    rows = tl.where(count > 0, T, 0)  # none where the other input has more parts or tiles
    t = place * BT + tl.arange(0, BT)
    seen, seen_d = t < rows, d < tl.where(count > 0, D, 0)
    inside = seen[:, None] & seen_d[None, :]
    theirs = other + (n * S + first) * D + d
    g = grad + n * T * S + first * next_other + t * next_own
    y = tl.load(own + (n * T + t[:, None]) * D + d[None, :], mask=inside, other=0.0)
    y = 2.0 * y.to(tl.float32)
    reach = tl.maximum(
        tl.max(tl.max(tl.abs(y), 1), 0), 2.0 * rows_size(theirs, D, count, seen_d, BD)
    )
    m = mode(reach)
    if m == FACTORED:
        slopes, levels = _walk_others(
            raised(y), theirs, g, D, next_other, count, seen, seen_d, BT, BD, FACTORED, FAST, WITH_V
        )
    elif m == NEAR:
        slopes, levels = _walk_others(
            y, theirs, g, D, next_other, count, seen, seen_d, BT, BD, NEAR, FAST, WITH_V
        )
    else:
        slopes, levels = _walk_others(
            y, theirs, g, D, next_other, count, seen, seen_d, BT, BD, PLAIN, FAST, WITH_V
        )
    scale = 4.0 * tl.load(v + (n % H) * D + d, mask=seen_d, other=0.0).to(tl.float32)
    row = part * (tl.num_programs(0) // tiles) + n
    at = (row * T + t[:, None]) * D + d[None, :]
    tl.store(out + at, slopes * scale[None, :], mask=inside)
    if WITH_V:
        tl.store(out_v + (row * tiles + place) * D + d, tl.sum(levels, 0), mask=seen_d)


@kernel
def _backward(
    q,
    k,
    v,
    grad,
    out_q,
    out_k,
    out_v,
    Q,
    K,
    D,
    H,
    share_q,
    share_k,
    tiles,
    BT: tl.constexpr,
    BD: tl.constexpr,
    FAST: tl.constexpr,
    OF_Q: tl.constexpr,
    OF_K: tl.constexpr,
):
    """Both inputs' gradients, a tile of one each program; `tiles` cover the longer one."""
    if tl.program_id(2) % 2 == 0:
        if OF_Q:
            _tile(q, k, v, grad, out_q, out_v, Q, K, D, H, K, 1, share_q, tiles, BT, BD, FAST, True)
    else:
        if OF_K:
            _tile(
                k, q, v, grad, out_k, out_v, K, Q, D, H, 1, K, share_k, tiles, BT, BD, FAST, False
            )


def _run_forward(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    """Scores (N, Q, K) of queries (N, Q, D) and keys (N, K, D)."""
    (batch, queries, dim), keys = query.shape, key.shape[1]
    out = query.new_empty(batch, queries, keys, dtype=torch.float32)
    if out.numel() == 0 or dim == 0:
        return out.zero_()
    turned = query.new_empty(2, batch, dim, queries, dtype=torch.float32)
    turned_key = query.new_empty(2, batch, dim, keys, dtype=torch.float32)
    given = query, key, turned[0], turned_key[0], turned[1], turned_key[1]
    grid = batch * cover(dim, 32), cover(max(queries, keys), 32), 2
    rest = *query.stride(), *key.stride(), queries, keys, dim
    launch(transposed, grid, (*given, *rest), (32, 32))
    tall, wide = min(16, power(queries)), min(64, power(keys))
    grid = batch * cover(queries, tall), cover(keys, wide), 1
    read = *given[2:], v.contiguous(), out, queries, keys, dim, v.numel() // dim
    launch(_forward, grid, read, (tall, wide, fast(query)))
    return out


def _run_backward(
    grad: Tensor, query: Tensor, key: Tensor, v: Tensor, for_query: bool, for_key: bool, for_v: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of those that want one; tensors that nobody reads of the others."""
    if grad.numel() == 0 or v.numel() == 0:
        return query.new_zeros(query.shape), key.new_zeros(key.shape), torch.zeros_like(v)
    (batch, queries, dim), keys = query.shape, key.shape[1]
    q, k, flat, grad = query.contiguous(), key.contiguous(), v.contiguous(), grad.contiguous()
    of_q, heads = for_query or for_v, v.numel() // dim
    tall, wide = min(16, power(max(queries, keys))), min(64, power(dim))
    tiles, columns = cover(max(queries, keys), tall), cover(dim, wide)
    parts_q, share_q = splits(batch * cover(queries, tall) * columns, keys) if of_q else (1, keys)
    parts_k, share_k = splits(batch * cover(keys, tall) * columns, queries) if for_key else (1, 1)
    none = (0,)
    of_heads = parts_q, batch // heads, heads, tiles, dim
    out_q = query.new_empty((parts_q, *query.shape) if of_q else none, dtype=torch.float32)
    out_k = query.new_empty((parts_k, *key.shape) if for_key else none, dtype=torch.float32)
    out_v = query.new_empty(of_heads if of_q else none, dtype=torch.float32)
    launch(
        _backward,
        (batch * tiles, columns, 2 * max(parts_q, parts_k)),
        (q, k, flat, grad, out_q, out_k, out_v, queries, keys, dim, heads, share_q, share_k, tiles),
        (tall, wide, fast(query), of_q, for_key),
    )
    return (
        _sum(out_q).to(query.dtype),
        _sum(out_k).to(key.dtype),
        out_v.sum((0, 1, 3)).view(-1).to(v.dtype) if for_v else v.new_empty(0),
    )


def _sum(parts: Tensor) -> Tensor:
    return parts if parts.dim() == 1 else parts[0] if len(parts) == 1 else parts.sum(0)


def _differentiate(run: Callable[..., Any], ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    needs = ctx.needs_input_grad
    query, key, v = ctx.saved_tensors
    if double_backward_wanted():
        heads = len(v) if v.dim() == 2 else 1
        return double_backward(eager.additive_scores, (query, key, v, heads), (grad,), needs)
    of_query, of_key, of_v = run(grad, query, key, v, *needs)
    found = of_query, of_key, of_v.view(v.shape) if needs[2] else None
    return tuple(g if need else None for g, need in zip(found, needs, strict=True))


class _Scores(torch.autograd.Function):
    """The operation in eager mode, without the overhead of a custom operator."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(query, key, v)
        return _run_forward(query, key, v)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _differentiate(_run_backward, ctx, *grads)


@custom_op("regard::triton_additive", mutates_args=())
def _scores(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    return _run_forward(query, key, v)


@_scores.register_fake
def _(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    return query.new_empty(query.shape[0], query.shape[1], key.shape[1], dtype=torch.float32)


@custom_op("regard::triton_additive_backward", mutates_args=())
def _gradients(
    grad: Tensor, query: Tensor, key: Tensor, v: Tensor, for_query: bool, for_key: bool, for_v: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return _run_backward(grad, query, key, v, for_query, for_key, for_v)


@_gradients.register_fake
def _(
    grad: Tensor, query: Tensor, key: Tensor, v: Tensor, for_query: bool, for_key: bool, for_v: bool
) -> tuple[Tensor, Tensor, Tensor]:
    with_query, none = for_query or for_v, (0,)
    return (
        query.new_empty(query.shape if with_query else none),
        key.new_empty(key.shape if for_key else none),
        v.new_empty(v.numel() if for_v else 0),
    )


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


_scores.register_autograd(partial(_differentiate, _gradients), setup_context=_keep)


def additive_scores(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    """Scores of every pair, in fp32.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D), v (D,), or (heads, D) for a last batch axis of
        heads, to (*batch, Q, K); batch axes broadcast
    """
    batch = query.shape[:-2]
    if len(batch) != 1 or batch != key.shape[:-2]:
        batch = torch.broadcast_shapes(batch, key.shape[:-2])
        query, key = (
            x.expand(*batch, *x.shape[-2:]).reshape(batch.numel(), *x.shape[-2:])
            for x in (query, key)
        )
    if torch.compiler.is_compiling():
        scores: Tensor = _scores(query, key, v)
    else:
        scores = _Scores.apply(query, key, v)
    return scores if len(batch) == 1 else scores.reshape(*batch, *scores.shape[-2:])
