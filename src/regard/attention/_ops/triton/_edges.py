"""The loops of `edges`: one over the edges of a node, one over those of the reversed graph."""

import triton
import triton.language as tl

__all__ = ["over_keys", "over_queries"]


@triton.jit
def _kept(seed, place, h, H, rate):
    """What a weight is multiplied by: 0 where it is dropped."""
    return tl.where(tl.rand(seed, place * H + h) < rate, 0.0, 1.0 / (1.0 - rate))


@triton.jit
def over_keys(
    left,
    right,
    value,
    offsets,
    sources,
    context,
    pack,
    grad,
    out,
    seed,
    Q,
    K,
    H,
    D,
    slope,
    rate,
    BE: tl.constexpr,
    BC: tl.constexpr,
    DROPS: tl.constexpr,
    BACKWARD: tl.constexpr,
):
    """A query's context and its pack (see `_run_forward`).

    BACKWARD, the gradient of the query's half before it is summed over the features of a head.
    """
    node = tl.program_id(0).to(tl.int64)
    b, i = node // Q, node % Q
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    seen_c = c < H * D
    h = tl.minimum(c // D, H - 1)
    first, end = tl.load(offsets + i), tl.load(offsets + i + 1)
    mine = tl.load(left + node * H + h)
    at = node * (H * D) + c
    own = pack + node * (3 * H) + h
    if BACKWARD:
        peak = tl.load(own + H)
        middle = tl.load(context + at, mask=seen_c, other=0.0)
    else:
        top = tl.full((BE, BC), float("-inf"), tl.float32)
        for begin in range(first, end, BE):
            e = begin + tl.arange(0, BE)
            j = b * K + tl.load(sources + e, mask=e < end, other=0)
            r = tl.load(right + j[:, None] * H + h[None, :])
            top = tl.maximum(top, tl.where((e < end)[:, None], r, float("-inf")))
        peak = mine + tl.max(top, 0)
        peak = tl.where(peak < 0.0, slope * peak, peak)
        peak = tl.where(first < end, peak, 0.0)
    total = tl.zeros((BE, BC), tl.float32)
    sums = tl.zeros((BE, BC), tl.float32)
    for begin in range(first, end, BE):
        e = begin + tl.arange(0, BE)
        j = b * K + tl.load(sources + e, mask=e < end, other=0)
        inside = (e < end)[:, None] & seen_c[None, :]
        x = mine[None, :] + tl.load(right + j[:, None] * H + h[None, :])
        w = tl.exp(tl.where(x < 0.0, slope * x, x) - peak[None, :])
        w = tl.where(inside, w, 0.0)
        v = tl.load(value + j[:, None] * (H * D) + c[None, :], mask=inside, other=0.0)
        if DROPS:
            v *= _kept(seed, e[:, None], h[None, :], H, rate)
        if BACKWARD:  # the sum of p (v - c) is 0: any number may be taken from the slope
            sums += tl.where(x < 0.0, (slope - 1.0) * w, 0.0) * (v - middle[None, :])
        else:
            total += w
            sums += w * v
    row = tl.sum(sums, 0)
    if BACKWARD:
        share = tl.load(own + 2 * H)
        row *= tl.load(grad + at, mask=seen_c, other=0.0)
    else:
        one = tl.sum(total, 0)
        share = tl.where(one > 0.0, 1.0 / tl.where(one > 0.0, one, 1.0), 0.0)
        head = seen_c & (c % D == 0)
        tl.store(own, mine, mask=head)
        tl.store(own + H, peak, mask=head)
        tl.store(own + 2 * H, share, mask=head)
    tl.store(out + at, row * share, mask=seen_c)


@triton.jit
def over_queries(
    pack,
    right,
    value,
    back,
    targets,
    places,
    context,
    grad,
    out_r,
    out_v,
    seed,
    Q,
    K,
    H,
    D,
    slope,
    rate,
    BE: tl.constexpr,
    BC: tl.constexpr,
    DROPS: tl.constexpr,
):
    """A key's gradients: of its value, and of its half before the sum over a head's features."""
    node = tl.program_id(0).to(tl.int64)
    b, j = node // K, node % K
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    seen_c = c < H * D
    h = tl.minimum(c // D, H - 1)
    first, end = tl.load(back + j), tl.load(back + j + 1)
    at = node * (H * D) + c
    mine = tl.load(right + node * H + h)
    v = tl.load(value + at, mask=seen_c, other=0.0)
    slopes = tl.zeros((BE, BC), tl.float32)
    sums = tl.zeros((BE, BC), tl.float32)
    for begin in range(first, end, BE):
        e = begin + tl.arange(0, BE)
        i = b * Q + tl.load(targets + e, mask=e < end, other=0)
        inside = (e < end)[:, None] & seen_c[None, :]
        row = pack + i[:, None] * (3 * H) + h[None, :]
        x = tl.load(row) + mine[None, :]
        w = tl.exp(tl.where(x < 0.0, slope * x, x) - tl.load(row + H)) * tl.load(row + 2 * H)
        w = tl.where(inside, w, 0.0)
        theirs = i[:, None] * (H * D) + c[None, :]
        g = tl.load(grad + theirs, mask=inside, other=0.0)
        middle = tl.load(context + theirs, mask=inside, other=0.0)
        w *= g
        if DROPS:
            place = tl.load(places + e, mask=e < end, other=0)
            kept = _kept(seed, place[:, None], h[None, :], H, rate)
            sums += w * kept
            w *= kept * v[None, :] - middle
        else:
            sums += w
            w *= v[None, :] - middle
        slopes += tl.where(x < 0.0, slope * w, w)
    tl.store(out_r + at, tl.sum(slopes, 0), mask=seen_c)
    tl.store(out_v + at, tl.sum(sums, 0), mask=seen_c)
