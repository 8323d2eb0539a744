r"""Additive scores on the GPU: nothing of size (B, Q, K, D) exists, forward or backward.

.. math:: e_{ij} = \sum_d v_d \tanh(q_{id} + k_{jd})

Forward: a program keeps a tile of scores in registers and loops over d. Backward: one program per
tile of one input's gradient, which loops over the other input. Partial results of several programs
for one tile, and the gradient of v, are summed afterwards. No output is written by two programs, so
there are no atomic additions and results are deterministic. All arithmetic is in fp32.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.attention._kernels import plain
from regard.attention._kernels.triton._math import (
    FACTORED,
    NEAR,
    PLAIN,
    exponentials,
    fast,
    mode,
    power,
    splits,
    squash,
)
from regard.native.twice import double_backward, double_backward_wanted

__all__ = ["additive_scores"]


@triton.jit
def _walk_features(
    q, k, v, q_d, k_d, D, seen_q, seen_k, BQ: tl.constexpr, BK: tl.constexpr,
    MODE: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """A tile of scores; q and k point at feature 0, of exponentials where FACTORED."""
    scores = tl.zeros((BQ, BK), tl.float32)
    for _ in range(D):
        if MODE == FACTORED:
            a = tl.load(q)
            b = tl.load(k)
        else:
            a = 2.0 * tl.load(q, mask=seen_q, other=0.0).to(tl.float32)
            b = 2.0 * tl.load(k, mask=seen_k, other=0.0).to(tl.float32)
        t, _ = squash(a[:, None], b[None, :], MODE, FAST, False)
        scores += tl.load(v).to(tl.float32) * t
        q += q_d
        k += k_d
        v += 1
    return scores


@triton.jit
def _forward(
    q, k, v, exp_q, exp_k, reach, out, q_n, q_t, q_d, k_n, k_t, k_d, Q, K, D, H, padded_q, padded_k,
    BQ: tl.constexpr, BK: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(Q, BQ)
    n = (tl.program_id(0) // tiles).to(tl.int64)
    i = (tl.program_id(0) % tiles) * BQ + tl.arange(0, BQ)
    j = tl.program_id(1) * BK + tl.arange(0, BK)
    seen_q, seen_k = i < Q, j < K
    rows_q, rows_k = q + n * q_n + i.to(tl.int64) * q_t, k + n * k_n + j.to(tl.int64) * k_t
    v += (n % H) * D
    m = mode(tl.load(reach))
    if m == FACTORED:  # exponentials lie as (N, D, T): a feature of neighbors is read at once
        tile = _walk_features(
            exp_q + n * D * padded_q + i, exp_k + n * D * padded_k + j, v, padded_q, padded_k, D,
            seen_q, seen_k, BQ, BK, FACTORED, FAST,
        )  # fmt: skip
    elif m == NEAR:
        tile = _walk_features(
            rows_q, rows_k, v, q_d, k_d, D, seen_q, seen_k, BQ, BK, NEAR, FAST
        )  # fmt: skip
    else:
        tile = _walk_features(
            rows_q, rows_k, v, q_d, k_d, D, seen_q, seen_k, BQ, BK, PLAIN, FAST
        )  # fmt: skip
    at = out + (n * Q + i[:, None]) * K + j[None, :]
    tl.store(at, tile, mask=seen_q[:, None] & seen_k[None, :])


@triton.jit
def _walk_others(
    own, other, grad, other_t, grad_t, count, seen, seen_d, BT: tl.constexpr, BD: tl.constexpr,
    MODE: tl.constexpr, FAST: tl.constexpr, WITH_V: tl.constexpr,
):  # fmt: skip
    """Sums over the other input's rows of grad tanh' / 4 and, WITH_V, of grad tanh."""
    slopes = tl.zeros((BT, BD), tl.float32)
    levels = tl.zeros((BT, BD), tl.float32)
    for _ in range(count):
        if MODE == FACTORED:
            b = tl.load(other)
        else:
            b = 2.0 * tl.load(other, mask=seen_d, other=0.0).to(tl.float32)
        g = tl.load(grad, mask=seen, other=0.0).to(tl.float32)
        t, slope = squash(own, b[None, :], MODE, FAST, True)
        slopes += g[:, None] * slope
        if WITH_V:
            levels += g[:, None] * t
        other += other_t
        grad += grad_t
    return slopes, levels


@triton.jit
def _backward(
    own, other, v, exp_own, exp_other, reach, grad, out, out_v,
    own_n, own_t, own_d, other_n, other_t, other_d, grad_n, grad_own, grad_other,
    N, T, S, D, H, padded_t, padded_s, padded_d, share,
    BT: tl.constexpr, BD: tl.constexpr, FAST: tl.constexpr, WITH_V: tl.constexpr,
):  # fmt: skip
    """One input's gradient (`own`, T rows): a tile of it, from `share` of the other's S rows."""
    tiles = tl.cdiv(T, BT)
    n = (tl.program_id(0) // tiles).to(tl.int64)
    t = (tl.program_id(0) % tiles).to(tl.int64) * BT + tl.arange(0, BT)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    first = tl.program_id(2).to(tl.int64) * share
    count = tl.minimum(S - first, share).to(tl.int32)
    seen, seen_d = t < T, d < D
    inside = seen[:, None] & seen_d[None, :]
    mine = own + n * own_n + t[:, None] * own_t + d[None, :] * own_d
    theirs = other + n * other_n + first * other_t + d * other_d
    g = grad + n * grad_n + t * grad_own + first * grad_other
    m = mode(tl.load(reach))
    if m == FACTORED:  # exponentials lie as (N, T, D)
        a = tl.load(exp_own + (n * padded_t + t[:, None]) * padded_d + d[None, :])
        theirs_exp = exp_other + (n * padded_s + first) * padded_d + d
        slopes, levels = _walk_others(
            a, theirs_exp, g, padded_d, grad_other, count, seen, seen_d,
            BT, BD, FACTORED, FAST, WITH_V,
        )  # fmt: skip
    elif m == NEAR:
        a = 2.0 * tl.load(mine, mask=inside, other=0.0).to(tl.float32)
        slopes, levels = _walk_others(
            a, theirs, g, other_t, grad_other, count, seen, seen_d, BT, BD, NEAR, FAST, WITH_V
        )  # fmt: skip
    else:
        a = 2.0 * tl.load(mine, mask=inside, other=0.0).to(tl.float32)
        slopes, levels = _walk_others(
            a, theirs, g, other_t, grad_other, count, seen, seen_d, BT, BD, PLAIN, FAST, WITH_V
        )  # fmt: skip
    scale = 4.0 * tl.load(v + (n % H) * D + d, mask=seen_d, other=0.0).to(tl.float32)
    at = ((tl.program_id(2) * N + n) * T + t[:, None]) * D + d[None, :]
    tl.store(out + at, slopes * scale[None, :], mask=inside)
    if WITH_V:
        part = tl.program_id(2).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)
        tl.store(out_v + part * D + d, tl.sum(levels, 0), mask=seen_d)


@torch.library.custom_op("regard::triton_additive", mutates_args=())
def _scores(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    (batch, queries, dim), keys = query.shape, key.shape[1]
    out = query.new_empty(batch, queries, keys, dtype=torch.float32)
    if out.numel() == 0 or dim == 0:
        return out.zero_()
    v = v.contiguous()
    tall = min(32, power(queries))
    wide = min(64 if tall == 32 else 128, power(keys))
    reach = query.new_zeros((), dtype=torch.float32)
    exp_q = exponentials(query, 2.0, reach, tall, turned=True)
    exp_k = exponentials(key, 2.0, reach, wide, turned=True)
    with torch.cuda.device_of(query):
        _forward[(batch * triton.cdiv(queries, tall), triton.cdiv(keys, wide))](
            query, key, v, exp_q, exp_k, reach, out, *query.stride(), *key.stride(),
            queries, keys, dim, v.numel() // dim, exp_q.shape[2], exp_k.shape[2],
            BQ=tall, BK=wide, FAST=fast(query), num_warps=4,
        )  # fmt: skip
    return out


@_scores.register_fake
def _(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    return query.new_empty(query.shape[0], query.shape[1], key.shape[1], dtype=torch.float32)


@torch.library.custom_op("regard::triton_additive_backward", mutates_args=())
def _gradients(
    grad: Tensor, query: Tensor, key: Tensor, v: Tensor, for_query: bool, for_key: bool, for_v: bool
) -> tuple[Tensor, Tensor, Tensor]:
    if grad.numel() == 0 or v.numel() == 0:
        return query.new_zeros(query.shape), key.new_zeros(key.shape), torch.zeros_like(v)
    v = v.contiguous()
    wide = min(64, power(query.shape[2]))
    reach = query.new_zeros((), dtype=torch.float32)
    exp_q = exponentials(query, 2.0, reach, _tall(query), wide)
    exp_k = exponentials(key, 2.0, reach, _tall(key), wide)
    grad_query, grad_key, grad_v = (t.new_empty(0) for t in (query, key, v))
    if for_query or for_v:
        grad_query, grad_v = _gradient(
            query, key, v, exp_q, exp_k, reach, grad, wide, with_v=for_v
        )  # fmt: skip
    if for_key:
        grad_key, _ = _gradient(key, query, v, exp_k, exp_q, reach, grad.mT, wide, with_v=False)
    return grad_query, grad_key, grad_v


def _tall(x: Tensor) -> int:
    return min(16, power(x.shape[1]))


def _gradient(
    own: Tensor, other: Tensor, v: Tensor, exp_own: Tensor, exp_other: Tensor, reach: Tensor,
    grad: Tensor, wide: int, *, with_v: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    (batch, length, dim), others = own.shape, other.shape[1]
    tall = _tall(own)
    tiles = batch * triton.cdiv(length, tall)
    parts, share = splits(tiles * triton.cdiv(dim, wide), others)
    dtype = own.dtype if parts == 1 else torch.float32
    out = own.new_empty(parts, batch, length, dim, dtype=dtype)
    out_v = own.new_empty(parts * tiles if with_v else 1, dim, dtype=torch.float32)
    with torch.cuda.device_of(own):
        _backward[(tiles, triton.cdiv(dim, wide), parts)](
            own, other, v, exp_own, exp_other, reach, grad, out, out_v,
            *own.stride(), *other.stride(), *grad.stride(),
            batch, length, others, dim, v.numel() // dim,
            exp_own.shape[1], exp_other.shape[1], exp_own.shape[2], share,
            BT=tall, BD=wide, FAST=fast(own), WITH_V=with_v, num_warps=4,
        )  # fmt: skip
    total = out[0] if parts == 1 else out.sum(0)
    if not with_v:
        return total.to(own.dtype), v.new_zeros(v.shape)
    heads = v.numel() // dim
    of_v = out_v.view(parts, batch // heads, heads, tiles // batch, dim).sum((0, 1, 3))
    return total.to(own.dtype), of_v.view(v.shape).to(v.dtype)


@_gradients.register_fake
def _(
    grad: Tensor, query: Tensor, key: Tensor, v: Tensor, for_query: bool, for_key: bool, for_v: bool
) -> tuple[Tensor, Tensor, Tensor]:
    with_query, none = for_query or for_v, (0,)
    return (
        query.new_empty(query.shape if with_query else none),
        key.new_empty(key.shape if for_key else none),
        v.new_empty(v.shape if with_query else none),
    )


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    needs = ctx.needs_input_grad
    if double_backward_wanted():
        query, key, v = ctx.saved_tensors
        heads = len(v) if v.dim() == 2 else 1
        return double_backward(plain.additive_scores, (query, key, v, heads), (grad,), needs)
    grads = _gradients(grad, *ctx.saved_tensors, *needs)
    return tuple(g if need else None for g, need in zip(grads, needs, strict=True))


_scores.register_autograd(_differentiate, setup_context=_keep)


def additive_scores(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    """Scores of every pair, in fp32.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D), v (D,), or (heads, D) for a last batch axis of
        heads, to (*batch, Q, K); batch axes broadcast
    """
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    rows = batch.numel()
    query = query.expand(*batch, *query.shape[-2:]).reshape(rows, *query.shape[-2:])
    key = key.expand(*batch, *key.shape[-2:]).reshape(rows, *key.shape[-2:])
    scores: Tensor = _scores(query, key, v)
    return scores.reshape(*batch, *scores.shape[-2:])
