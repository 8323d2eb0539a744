r"""Additive scores on the GPU: nothing of size (B, Q, K, D) exists, forward or backward.

.. math:: e_{ij} = \sum_d v_d \tanh(q_{id} + k_{jd})

Forward: a program keeps a tile of scores in registers and loops over d. Backward: one program per
tile of one input's gradient, which loops over the other input. Partial results of several programs
for one tile, and the gradient of v, are summed afterwards. No output is written by two programs, so
there are no atomic additions and results are deterministic. All arithmetic is in fp32.

Of a small call the launches cost most, and of a launch its arguments. So PyTorch casts, transposes
and exponentiates the inputs, each kernel reads contiguous tensors, and none takes a stride.
"""

from collections.abc import Callable
from functools import partial
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
    cover,
    fast,
    mode,
    power,
    rows_reach,
    splits,
    squash,
    tile_reach,
)
from regard.native.twice import double_backward, double_backward_wanted

__all__ = ["additive_scores"]


@triton.jit
def _walk_features(
    q, k, v, Q, K, D, seen_q, seen_k, BQ: tl.constexpr, BK: tl.constexpr,
    MODE: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """A tile of scores; q and k point at feature 0, of exponentials where FACTORED."""
    scores = tl.zeros((BQ, BK), tl.float32)
    for _ in range(D):
        a = tl.load(q, mask=seen_q, other=0.0)
        b = tl.load(k, mask=seen_k, other=0.0)
        if MODE != FACTORED:
            a *= 2.0
            b *= 2.0
        t, _ = squash(a[:, None], b[None, :], MODE, FAST, False)
        scores += tl.load(v) * t
        q += Q
        k += K
        v += 1
    return scores


@triton.jit
def _forward(
    q, k, exp_q, exp_k, v, out, Q, K, D, H,
    BQ: tl.constexpr, BK: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
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
        tile = _walk_features(
            exp_q + at_q, exp_k + at_k, v, Q, K, D, seen_q, seen_k, BQ, BK, FACTORED, FAST
        )  # fmt: skip
    elif m == NEAR:
        tile = _walk_features(q + at_q, k + at_k, v, Q, K, D, seen_q, seen_k, BQ, BK, NEAR, FAST)
    else:
        tile = _walk_features(q + at_q, k + at_k, v, Q, K, D, seen_q, seen_k, BQ, BK, PLAIN, FAST)
    at = out + (n * Q + i[:, None]) * K + j[None, :]
    tl.store(at, tile, mask=seen_q[:, None] & seen_k[None, :])


@triton.jit
def _walk_others(
    own, other, grad, T, D, count, seen, seen_d, BT: tl.constexpr, BD: tl.constexpr,
    MODE: tl.constexpr, FAST: tl.constexpr, WITH_V: tl.constexpr,
):  # fmt: skip
    """Sums over the other input's rows of grad tanh' / 4 and, WITH_V, of grad tanh."""
    slopes = tl.zeros((BT, BD), tl.float32)
    levels = tl.zeros((BT, BD), tl.float32)
    for _ in range(count):
        b = tl.load(other, mask=seen_d, other=0.0)
        if MODE != FACTORED:
            b *= 2.0
        g = tl.load(grad, mask=seen, other=0.0)
        t, slope = squash(own, b[None, :], MODE, FAST, True)
        slopes += g[:, None] * slope
        if WITH_V:
            levels += g[:, None] * t
        other += D
        grad += T
    return slopes, levels


@triton.jit
def _backward(
    own, other, exp_own, exp_other, v, grad, out, out_v, T, S, D, H, share,
    BT: tl.constexpr, BD: tl.constexpr, FAST: tl.constexpr, WITH_V: tl.constexpr,
):  # fmt: skip
    """One input's gradient (`own`, T rows): a tile of it, from `share` of the other's S rows.

    Inputs lie as (N, T, D), the gradient of the scores as (N, S, T).
    """
    tiles = tl.cdiv(T, BT)
    n = (tl.program_id(0) // tiles).to(tl.int64)
    t = (tl.program_id(0) % tiles).to(tl.int64) * BT + tl.arange(0, BT)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    first = tl.program_id(2).to(tl.int64) * share
    count = tl.minimum(S - first, share).to(tl.int32)
    seen, seen_d = t < T, d < D
    inside = seen[:, None] & seen_d[None, :]
    mine = (n * T + t[:, None]) * D + d[None, :]
    theirs = (n * S + first) * D + d
    g = grad + (n * S + first) * T + t
    a = tl.load(exp_own + mine, mask=inside, other=1.0)
    reach = tile_reach(a)
    m = mode(tl.maximum(reach, rows_reach(exp_other + theirs, D, count, seen_d, BD)))
    if m == FACTORED:
        slopes, levels = _walk_others(
            a, exp_other + theirs, g, T, D, count, seen, seen_d, BT, BD, FACTORED, FAST, WITH_V
        )  # fmt: skip
    elif m == NEAR:
        a = 2.0 * tl.load(own + mine, mask=inside, other=0.0)
        slopes, levels = _walk_others(
            a, other + theirs, g, T, D, count, seen, seen_d, BT, BD, NEAR, FAST, WITH_V
        )  # fmt: skip
    else:
        a = 2.0 * tl.load(own + mine, mask=inside, other=0.0)
        slopes, levels = _walk_others(
            a, other + theirs, g, T, D, count, seen, seen_d, BT, BD, PLAIN, FAST, WITH_V
        )  # fmt: skip
    scale = 4.0 * tl.load(v + (n % H) * D + d, mask=seen_d, other=0.0)
    part = tl.program_id(2).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)
    at = ((part // tiles) * T + t[:, None]) * D + d[None, :]
    tl.store(out + at, slopes * scale[None, :], mask=inside)
    if WITH_V:
        tl.store(out_v + part * D + d, tl.sum(levels, 0), mask=seen_d)


def _run_forward(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    """Scores (N, Q, K) of queries (N, Q, D) and keys (N, K, D)."""
    (batch, queries, dim), keys = query.shape, key.shape[1]
    out = query.new_empty(batch, queries, keys, dtype=torch.float32)
    if out.numel() == 0 or dim == 0:
        return out.zero_()
    q, k = (x.mT.float().contiguous() for x in (query, key))
    exp_q, exp_k = _powers(q, k)
    v = v.float().contiguous()
    tall = min(32, power(queries))
    wide = min(64 if tall == 32 else 128, power(keys))
    with torch.cuda.device_of(query):
        _forward[(batch * cover(queries, tall), cover(keys, wide))](
            q, k, exp_q, exp_k, v, out, queries, keys, dim, v.numel() // dim,
            BQ=tall, BK=wide, FAST=fast(query), num_warps=4,
        )  # fmt: skip
    return out


def _powers(*tensors: Tensor) -> tuple[Tensor, ...]:
    """e^{2x} of each; infinite or zero far out, where kernels do not use it."""
    found = tuple(torch._foreach_mul(tensors, 2.0))
    torch._foreach_exp_(found)
    return found


def _run_backward(
    grad: Tensor, query: Tensor, key: Tensor, v: Tensor, for_query: bool, for_key: bool, for_v: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of those that want one; tensors that nobody reads of the others."""
    if grad.numel() == 0 or v.numel() == 0:
        return query.new_zeros(query.shape), key.new_zeros(key.shape), torch.zeros_like(v)
    q, k = query.float().contiguous(), key.float().contiguous()
    exp_q, exp_k = _powers(q, k)
    v, kind, grad = v.float().contiguous(), v.dtype, grad.float()
    grad_query, grad_key, grad_v = (t.new_empty(0) for t in (query, key, v))
    if for_query or for_v:
        turned = grad.mT.contiguous()
        grad_query, grad_v = _gradient(q, k, exp_q, exp_k, v, turned, with_v=for_v)
    if for_key:
        grad_key, _ = _gradient(k, q, exp_k, exp_q, v, grad.contiguous(), with_v=False)
    return grad_query.to(query.dtype), grad_key.to(key.dtype), grad_v.view(-1).to(kind)


def _gradient(
    own: Tensor, other: Tensor, exp_own: Tensor, exp_other: Tensor, v: Tensor, grad: Tensor, *,
    with_v: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    (batch, length, dim), others = own.shape, other.shape[1]
    tall, wide = min(16, power(length)), min(64, power(dim))
    tiles = batch * cover(length, tall)
    parts, share = splits(tiles * cover(dim, wide), others)
    heads = v.numel() // dim
    out = own.new_empty(parts, batch, length, dim)
    out_v = own.new_empty(parts * tiles if with_v else 1, dim)
    with torch.cuda.device_of(own):
        _backward[(tiles, cover(dim, wide), parts)](
            own, other, exp_own, exp_other, v, grad, out, out_v,
            length, others, dim, heads, share,
            BT=tall, BD=wide, FAST=fast(own), WITH_V=with_v, num_warps=4,
        )  # fmt: skip
    total = out[0] if parts == 1 else out.sum(0)
    if not with_v:
        return total, out_v
    return total, out_v.view(parts, batch // heads, heads, tiles // batch, dim).sum((0, 1, 3))


def _differentiate(run: Callable[..., Any], ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    needs = ctx.needs_input_grad
    query, key, v = ctx.saved_tensors
    if double_backward_wanted():
        heads = len(v) if v.dim() == 2 else 1
        return double_backward(plain.additive_scores, (query, key, v, heads), (grad,), needs)
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


@torch.library.custom_op("regard::triton_additive", mutates_args=())
def _scores(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    return _run_forward(query, key, v)


@_scores.register_fake
def _(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    return query.new_empty(query.shape[0], query.shape[1], key.shape[1], dtype=torch.float32)


@torch.library.custom_op("regard::triton_additive_backward", mutates_args=())
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
