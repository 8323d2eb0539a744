"""The loops of `features`: a tile of queries walks over keys, a tile of keys over queries."""

import triton
import triton.language as tl

from regard.attention._kernels.triton._math import FACTORED, NEAR, PLAIN, mode, squash

__all__ = ["over_keys", "over_queries"]


@triton.jit
def _walk_keys(
    own, other, value, mask, value_t, mask_k, other_t, begin, end, start, stop, seen, seen_d,
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
    for j in range(begin, end):
        if MODE == FACTORED:
            b = tl.load(other)
        else:
            b = factor * tl.load(other, mask=seen_d, other=0.0).to(tl.float32)
        x = tl.load(value, mask=seen_d, other=0.0).to(tl.float32)
        t, slope = squash(own, b[None, :], MODE, FAST, BACKWARD)
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
        other += other_t
        value += value_t
    return total, sums


@triton.jit
def over_keys(
    q, k, v, exp_q, exp_k, reach, start, stop, mask, context, total, grad, out,
    q_n, q_t, q_d, k_n, k_t, k_d, v_n, v_t, v_d, s_n, s_t, e_n, e_t, m_n, m_q, m_k,
    Q, K, D, padded_q, padded_k, padded_d, factor, sharp, slant,
    BT: tl.constexpr, BD: tl.constexpr, FAST: tl.constexpr, MASKED: tl.constexpr,
    BACKWARD: tl.constexpr,
):  # fmt: skip
    """A tile of contexts and of their sums of weights; BACKWARD, of the queries' gradient."""
    tiles = tl.cdiv(Q, BT)
    n = (tl.program_id(0) // tiles).to(tl.int64)
    i = (tl.program_id(0) % tiles).to(tl.int64) * BT + tl.arange(0, BT)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    seen, seen_d = i < Q, d < D
    inside = seen[:, None] & seen_d[None, :]
    from_key = tl.load(start + n * s_n + i * s_t, mask=seen, other=K)
    to_key = tl.load(stop + n * e_n + i * e_t, mask=seen, other=0)
    begin, end = tl.min(from_key, 0), tl.minimum(tl.max(to_key, 0), K)
    at = (n * Q + i[:, None]) * D + d[None, :]
    mine = q + n * q_n + i[:, None] * q_t + d[None, :] * q_d
    theirs = k + n * k_n + begin.to(tl.int64) * k_t + d * k_d
    values = v + n * v_n + begin.to(tl.int64) * v_t + d * v_d
    masks = mask + n * m_n + i * m_q + begin.to(tl.int64) * m_k
    middle = tl.zeros((BT, BD), tl.float32)
    if BACKWARD:
        middle = tl.load(context + at, mask=inside, other=0.0).to(tl.float32)
    center = tl.where(tl.load(reach) < 2.0, 0.25, 0.0)
    m = mode(tl.load(reach))
    if m == FACTORED:
        a = tl.load(exp_q + (n * padded_q + i[:, None]) * padded_d + d[None, :])
        exponents = exp_k + (n * padded_k + begin) * padded_d + d
        weight, sums = _walk_keys(
            a, exponents, values, masks, v_t, m_k, padded_d, begin, end, from_key, to_key, seen,
            seen_d, factor, sharp, middle, center, BT, BD, FACTORED, FAST, MASKED, BACKWARD,
        )  # fmt: skip
    elif m == NEAR:
        a = factor * tl.load(mine, mask=inside, other=0.0).to(tl.float32)
        weight, sums = _walk_keys(
            a, theirs, values, masks, v_t, m_k, k_t, begin, end, from_key, to_key, seen,
            seen_d, factor, sharp, middle, center, BT, BD, NEAR, FAST, MASKED, BACKWARD,
        )  # fmt: skip
    else:
        a = factor * tl.load(mine, mask=inside, other=0.0).to(tl.float32)
        weight, sums = _walk_keys(
            a, theirs, values, masks, v_t, m_k, k_t, begin, end, from_key, to_key, seen,
            seen_d, factor, sharp, middle, center, BT, BD, PLAIN, FAST, MASKED, BACKWARD,
        )  # fmt: skip
    if BACKWARD:
        weight = tl.load(total + at, mask=inside, other=0.0)
        sums *= slant * tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
    else:
        tl.store(total + at, weight, mask=inside)
    sums = tl.where(weight > 0.0, sums / tl.where(weight > 0.0, weight, 1.0), 0.0)
    tl.store(out + at, sums, mask=inside)


@triton.jit
def _walk_queries(
    own, other, start, stop, mask, context, total, grad, value, other_t, s_t, e_t, m_q, D, count,
    j, first, last, seen, seen_d, factor, sharp,
    BT: tl.constexpr, BD: tl.constexpr, MODE: tl.constexpr, FAST: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """Sums over the queries of w g and of w g v' tanh' / 4, where g is grad / total."""
    slopes = tl.zeros((BT, BD), tl.float32)
    sums = tl.zeros((BT, BD), tl.float32)
    for _ in range(count):
        from_key, to_key = tl.load(start), tl.load(stop)
        if (from_key <= last) & (to_key > first):  # a directional mask leaves half of them
            if MODE == FACTORED:
                b = tl.load(other)
            else:
                b = factor * tl.load(other, mask=seen_d, other=0.0).to(tl.float32)
            weight = tl.load(total, mask=seen_d, other=0.0)
            g = tl.load(grad, mask=seen_d, other=0.0).to(tl.float32)
            g = tl.where(weight > 0.0, g / tl.where(weight > 0.0, weight, 1.0), 0.0)
            middle = tl.load(context, mask=seen_d, other=0.0).to(tl.float32)
            t, slope = squash(own, b[None, :], MODE, FAST, True)
            allowed = (from_key <= j) & (j < to_key)
            if MASKED:
                allowed = allowed & (tl.load(mask, mask=seen, other=0) != 0)
            w = tl.where(allowed[:, None], tl.exp2(sharp * t), 0.0) * g[None, :]
            sums += w
            slopes += (w * slope) * (value - middle[None, :])
        other += other_t
        start += s_t
        stop += e_t
        mask += m_q
        context += D
        total += D
        grad += D
    return sums, slopes


@triton.jit
def over_queries(
    q, k, v, exp_q, exp_k, reach, start, stop, mask, context, total, grad, out_k, out_v,
    q_n, q_t, q_d, k_n, k_t, k_d, v_n, v_t, v_d, s_n, s_t, e_n, e_t, m_n, m_q, m_k,
    Q, K, D, padded_q, padded_k, padded_d, factor, sharp, slant,
    BT: tl.constexpr, BD: tl.constexpr, FAST: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """A tile of the keys' and the values' gradients."""
    tiles = tl.cdiv(K, BT)
    n = (tl.program_id(0) // tiles).to(tl.int64)
    j = (tl.program_id(0) % tiles).to(tl.int64) * BT + tl.arange(0, BT)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    seen, seen_d = j < K, d < D
    first, last = tl.min(j, 0), tl.max(j, 0)
    inside = seen[:, None] & seen_d[None, :]
    at = (n * K + j[:, None]) * D + d[None, :]
    mine = k + n * k_n + j[:, None] * k_t + d[None, :] * k_d
    theirs = q + n * q_n + d * q_d
    value = tl.load(v + n * v_n + j[:, None] * v_t + d[None, :] * v_d, mask=inside, other=0.0)
    value = value.to(tl.float32)
    rows = n * Q * D + d
    starts, stops, masks = start + n * s_n, stop + n * e_n, mask + n * m_n + j * m_k
    m = mode(tl.load(reach))
    if m == FACTORED:
        b = tl.load(exp_k + (n * padded_k + j[:, None]) * padded_d + d[None, :])
        sums, slopes = _walk_queries(
            b, exp_q + n * padded_q * padded_d + d, starts, stops, masks, context + rows,
            total + rows, grad + rows, value, padded_d, s_t, e_t, m_q, D, Q, j, first, last,
            seen, seen_d, factor, sharp, BT, BD, FACTORED, FAST, MASKED,
        )  # fmt: skip
    elif m == NEAR:
        b = factor * tl.load(mine, mask=inside, other=0.0).to(tl.float32)
        sums, slopes = _walk_queries(
            b, theirs, starts, stops, masks, context + rows,
            total + rows, grad + rows, value, q_t, s_t, e_t, m_q, D, Q, j, first, last,
            seen, seen_d, factor, sharp, BT, BD, NEAR, FAST, MASKED,
        )  # fmt: skip
    else:
        b = factor * tl.load(mine, mask=inside, other=0.0).to(tl.float32)
        sums, slopes = _walk_queries(
            b, theirs, starts, stops, masks, context + rows,
            total + rows, grad + rows, value, q_t, s_t, e_t, m_q, D, Q, j, first, last,
            seen, seen_d, factor, sharp, BT, BD, PLAIN, FAST, MASKED,
        )  # fmt: skip
    tl.store(out_k + at, slant * slopes, mask=inside)
    tl.store(out_v + at, sums, mask=inside)
