"""The loops of `features`: a tile of queries walks over keys, a tile of keys over queries."""

import triton
import triton.language as tl

from regard.attention._ops.triton._launch import kernel
from regard.attention._ops.triton._math import (
    FACTORED,
    NEAR,
    PLAIN,
    mode,
    raised,
    rows_size,
    squash,
)

__all__ = ["contexts", "gradients"]


@triton.jit
def _read(x, seen, factor, MODE: tl.constexpr):
    """What `squash` wants of features: e^y where FACTORED, else y, with y = factor x."""
    y = factor * tl.load(x, mask=seen, other=0.0).to(tl.float32)
    return raised(y) if MODE == FACTORED else y


@triton.jit
def _reach(own, other, step, count, inside, seen_d, factor, BD: tl.constexpr):
    """The largest |y| of a tile and of `count` rows."""
    size = tl.abs(tl.load(own, mask=inside, other=0.0).to(tl.float32))
    return factor * tl.maximum(
        tl.max(tl.max(size, 1), 0), rows_size(other, step, count, seen_d, BD)
    )


@triton.jit
def _walk_keys(
    own, other, value, mask, D, mask_k, begin, end, start, stop, inside, seen, seen_d,
    factor, sharp, context, center,
    BT: tl.constexpr, BD: tl.constexpr, MODE: tl.constexpr, FAST: tl.constexpr,
    MASKED: tl.constexpr, BACKWARD: tl.constexpr,
):  # fmt: skip
    """Sums of w and of w v over the keys; BACKWARD, of w v' tanh' / 4 with v' = v - context.

    The sum of w v' is 0, so any number may be taken from tanh' / 4: with a quarter, where tanh' is
    nearly 1 everywhere, the terms are small and so are their rounding errors.
    """
    total = tl.zeros((BT, BD), tl.float32)
    sums = tl.zeros((BT, BD), tl.float32)
    a = _read(own, inside, factor, MODE)
    for j in range(begin, end):
        b = _read(other, seen_d, factor, MODE)
        x = tl.load(value, mask=seen_d, other=0.0).to(tl.float32)
        t, slope = squash(a, b[None, :], MODE, FAST, BACKWARD)
        allowed = (start <= j) & (j < stop)
        if MASKED:
            allowed = allowed & (tl.load(mask, mask=seen, other=0) != 0)
            mask += mask_k
        w = tl.where(allowed[:, None], tl.exp2(sharp * t), 0.0)
        if BACKWARD:
            slope = -0.25 * t * t if MODE == NEAR else slope - center
            sums += (w * slope) * (x[None, :] - context)
        else:
            total += w
            sums += w * x[None, :]
        other += D
        value += D
    return total, sums


@triton.jit
def _over_keys(
    q, k, v, start, stop, mask, context, total, grad, out, s_n, s_t, e_n, e_t, m_n, m_q, m_k,
    Q, K, D, tiles, factor, sharp, slant,
    BT: tl.constexpr, BD: tl.constexpr, FAST: tl.constexpr, MASKED: tl.constexpr,
    BACKWARD: tl.constexpr,
):  # fmt: skip
    """A tile of contexts and of their sums of weights; BACKWARD, of the queries' gradient."""
    n = (tl.program_id(0) // tiles).to(tl.int64)
    i = (tl.program_id(0) % tiles).to(tl.int64) * BT + tl.arange(0, BT)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    seen, seen_d = i < Q, d < D
    inside = seen[:, None] & seen_d[None, :]
    from_key = tl.load(start + n * s_n + i * s_t, mask=seen, other=K)
    to_key = tl.load(stop + n * e_n + i * e_t, mask=seen, other=0)
    begin, end = tl.min(from_key, 0), tl.minimum(tl.max(to_key, 0), K)
    at = (n * Q + i[:, None]) * D + d[None, :]
    mine, there = q + at, (n * K + begin) * D + d
    theirs, values = k + there, v + there
    masks = mask + n * m_n + i * m_q + begin.to(tl.int64) * m_k
    middle = tl.zeros((BT, BD), tl.float32)
    if BACKWARD:
        middle = tl.load(context + at, mask=inside, other=0.0)
    reach = _reach(mine, theirs, D, end - begin, inside, seen_d, factor, BD)
    center = tl.where(reach < 2.0, 0.25, 0.0)
    m = mode(reach)
    if m == FACTORED:
        weight, sums = _walk_keys(
            mine, theirs, values, masks, D, m_k, begin, end, from_key, to_key, inside, seen,
            seen_d, factor, sharp, middle, center, BT, BD, FACTORED, FAST, MASKED, BACKWARD,
        )  # fmt: skip
    elif m == NEAR:
        weight, sums = _walk_keys(
            mine, theirs, values, masks, D, m_k, begin, end, from_key, to_key, inside, seen,
            seen_d, factor, sharp, middle, center, BT, BD, NEAR, FAST, MASKED, BACKWARD,
        )  # fmt: skip
    else:
        weight, sums = _walk_keys(
            mine, theirs, values, masks, D, m_k, begin, end, from_key, to_key, inside, seen,
            seen_d, factor, sharp, middle, center, BT, BD, PLAIN, FAST, MASKED, BACKWARD,
        )  # fmt: skip
    if BACKWARD:
        weight = tl.load(total + at, mask=inside, other=0.0)
        sums *= slant * tl.load(grad + at, mask=inside, other=0.0)
    else:
        tl.store(total + at, weight, mask=inside)
    sums = tl.where(weight > 0.0, sums / tl.where(weight > 0.0, weight, 1.0), 0.0)
    tl.store(out + at, sums, mask=inside)


@triton.jit
def _walk_queries(
    own, other, start, stop, mask, context, total, grad, value, s_t, e_t, m_q, D, count,
    j, first, last, inside, seen, seen_d, factor, sharp,
    BT: tl.constexpr, BD: tl.constexpr, MODE: tl.constexpr, FAST: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """Sums over the queries of w g and of w g v' tanh' / 4, where g is grad / total."""
    slopes = tl.zeros((BT, BD), tl.float32)
    sums = tl.zeros((BT, BD), tl.float32)
    a = _read(own, inside, factor, MODE)
    for _ in range(count):
        from_key, to_key = tl.load(start), tl.load(stop)
        if (from_key <= last) & (to_key > first):  # a directional mask leaves half of them
            b = _read(other, seen_d, factor, MODE)
            weight = tl.load(total, mask=seen_d, other=0.0)
            g = tl.load(grad, mask=seen_d, other=0.0)
            g = tl.where(weight > 0.0, g / tl.where(weight > 0.0, weight, 1.0), 0.0)
            middle = tl.load(context, mask=seen_d, other=0.0)
            t, slope = squash(a, b[None, :], MODE, FAST, True)
            allowed = (from_key <= j) & (j < to_key)
            if MASKED:
                allowed = allowed & (tl.load(mask, mask=seen, other=0) != 0)
            w = tl.where(allowed[:, None], tl.exp2(sharp * t), 0.0) * g[None, :]
            sums += w
            slopes += (w * slope) * (value - middle[None, :])
        other += D
        start += s_t
        stop += e_t
        mask += m_q
        context += D
        total += D
        grad += D
    return sums, slopes


@triton.jit
def _over_queries(
    q, k, v, start, stop, mask, context, total, grad, out_k, out_v, s_n, s_t, e_n, e_t,
    m_n, m_q, m_k, Q, K, D, tiles, factor, sharp, slant,
    BT: tl.constexpr, BD: tl.constexpr, FAST: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """A tile of the keys' and the values' gradients."""
    n = (tl.program_id(0) // tiles).to(tl.int64)
    j = (tl.program_id(0) % tiles).to(tl.int64) * BT + tl.arange(0, BT)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    seen, seen_d = j < K, d < D
    first, last = tl.min(j, 0), tl.max(j, 0)
    inside = seen[:, None] & seen_d[None, :]
    at = (n * K + j[:, None]) * D + d[None, :]
    rows = n * Q * D + d
    value = tl.load(v + at, mask=inside, other=0.0).to(tl.float32)
    starts, stops, masks = start + n * s_n, stop + n * e_n, mask + n * m_n + j * m_k
    m = mode(_reach(k + at, q + rows, D, Q, inside, seen_d, factor, BD))
    if m == FACTORED:
        sums, slopes = _walk_queries(
            k + at, q + rows, starts, stops, masks, context + rows, total + rows, grad + rows,
            value, s_t, e_t, m_q, D, Q, j, first, last, inside, seen, seen_d, factor, sharp,
            BT, BD, FACTORED, FAST, MASKED,
        )  # fmt: skip
    elif m == NEAR:
        sums, slopes = _walk_queries(
            k + at, q + rows, starts, stops, masks, context + rows, total + rows, grad + rows,
            value, s_t, e_t, m_q, D, Q, j, first, last, inside, seen, seen_d, factor, sharp,
            BT, BD, NEAR, FAST, MASKED,
        )  # fmt: skip
    else:
        sums, slopes = _walk_queries(
            k + at, q + rows, starts, stops, masks, context + rows, total + rows, grad + rows,
            value, s_t, e_t, m_q, D, Q, j, first, last, inside, seen, seen_d, factor, sharp,
            BT, BD, PLAIN, FAST, MASKED,
        )  # fmt: skip
    tl.store(out_k + at, slopes * slant, mask=inside)
    tl.store(out_v + at, sums, mask=inside)


@kernel
def contexts(
    q, k, v, start, stop, mask, context, total, s_n, s_t, e_n, e_t, m_n, m_q, m_k, Q, K, D, tiles,
    factor, sharp, slant,
    BT: tl.constexpr, BD: tl.constexpr, FAST: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """A tile of contexts and of their sums of weights."""
    _over_keys(
        q, k, v, start, stop, mask, context, total, context, context, s_n, s_t, e_n, e_t,
        m_n, m_q, m_k, Q, K, D, tiles, factor, sharp, slant, BT, BD, FAST, MASKED, False,
    )  # fmt: skip


@kernel
def gradients(
    q, k, v, start, stop, mask, context, total, grad, out_q, out_k, out_v,
    s_n, s_t, e_n, e_t, m_n, m_q, m_k, Q, K, D, tiles, factor, sharp, slant,
    BT: tl.constexpr, BD: tl.constexpr, FAST: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """A tile of the queries' gradient, or of the keys' and the values'."""
    if tl.program_id(2) == 0:
        _over_keys(
            q, k, v, start, stop, mask, context, total, grad, out_q, s_n, s_t, e_n, e_t,
            m_n, m_q, m_k, Q, K, D, tiles, factor, sharp, slant, BT, BD, FAST, MASKED, True,
        )  # fmt: skip
    else:
        _over_queries(
            q, k, v, start, stop, mask, context, total, grad, out_k, out_v, s_n, s_t, e_n, e_t,
            m_n, m_q, m_k, Q, K, D, tiles, factor, sharp, slant, BT, BD, FAST, MASKED,
        )  # fmt: skip
