r"""Graph attention on the GPU: one program for each node, which walks over the node's edges.

.. math:: e_{ij} = \mathrm{LeakyReLU}(l_i + r_j), \quad
          c_i = \sum_{j \in \mathcal N_i} p_{ij} v_j, \quad p_{ij} = \mathrm{softmax}_j(e_{ij})

No tensor of one entry per edge is stored. The leaky ReLU is monotone, so the largest score of a row
is that of its largest r. Columns are the features of all heads and are independent: the sums over
the features of a head in the gradients,

.. math:: \dot l_i = \sum_d g_{id} \sum_j p_{ij} s_{ij} (v_{jd} - c_{id}), \quad
          \dot r_j = \sum_d \sum_i p_{ij} s_{ij} g_{id} (v_{jd} - c_{id})

(s the slope at the edge), are computed after the loop. The gradients of keys and values loop over
the reversed graph, so there are no atomic additions. Dropout is drawn again from (seed, edge, head)
in each pass.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.attention._kernels import plain
from regard.attention._kernels.triton._math import cover, power
from regard.native.twice import double_backward, double_backward_wanted

__all__ = ["edge_attention"]


@triton.jit
def _kept(seed, place, h, H, rate):
    """What a weight is multiplied by: 0 where it is dropped."""
    return tl.where(tl.rand(seed, place * H + h) < rate, 0.0, 1.0 / (1.0 - rate))


@triton.jit
def _over_keys(
    left, right, value, offsets, sources, context, peaks, totals, grad, out, seed,
    Q, K, H, D, slope, rate,
    BE: tl.constexpr, BC: tl.constexpr, DROPS: tl.constexpr, BACKWARD: tl.constexpr,
):  # fmt: skip
    """A query's context, and the largest score and the sum of its row.

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
    if BACKWARD:
        peak = tl.load(peaks + node * H + h)
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
        one = tl.load(totals + node * H + h)
        row *= tl.load(grad + at, mask=seen_c, other=0.0)
    else:
        one = tl.sum(total, 0)
    row = row / tl.where(one > 0.0, one, 1.0)
    if not BACKWARD:
        head = seen_c & (c % D == 0)
        tl.store(peaks + node * H + h, peak, mask=head)
        tl.store(totals + node * H + h, one, mask=head)
    tl.store(out + at, row, mask=seen_c)


@triton.jit
def _over_queries(
    pack, right, value, back, targets, places, context, grad, out_r, out_v, seed,
    Q, K, H, D, slope, rate,
    BE: tl.constexpr, BC: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """A key's gradients: of its value, and of its half before the sum over a head's features.

    `pack` (B, Q, 3, H) has of each query its half, its peak and 1 / total.
    """
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


def edge_attention(
    left: Tensor,
    right: Tensor,
    value: Tensor,
    seed: Tensor,
    offsets: Tensor,
    sources: Tensor,
    back: Tensor | None,
    targets: Tensor | None,
    places: Tensor | None,
    slope: float,
    rate: float,
) -> Tensor:
    """The context of each node.

    Args:
        seed: of the dropped weights, one int64 on the CPU.
        slope: of the leaky ReLU below 0, at least 0.
        rate: the probability of dropping a weight.

    Shapes:
        left (B, Q, H), right (B, K, H), value (B, K, H, D) in fp32; the graph: offsets (Q + 1),
        sources (E); reversed, where gradients are wanted: back (K + 1), targets (E), places (E);
        to (B, Q, H, D)
    """
    graph = offsets, sources, back, targets, places
    context, _, _ = _forward(left, right, value, seed, *graph, slope, rate)
    return context


def _tile(columns: int) -> dict[str, int]:
    """A tile of edges by columns, about 512 numbers: pointers to each take registers."""
    wide = min(128, power(columns))
    return {"BE": min(32, 512 // wide), "BC": wide, "num_warps": 2}


@torch.library.custom_op("regard::triton_edges", mutates_args=())
def _forward(
    left: Tensor,
    right: Tensor,
    value: Tensor,
    seed: Tensor,
    offsets: Tensor,
    sources: Tensor,
    back: Tensor | None,
    targets: Tensor | None,
    places: Tensor | None,
    slope: float,
    rate: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Context (B, Q, H, D), and of each row the largest score and the sum, both (B, Q, H)."""
    left, right, value = left.contiguous(), right.contiguous(), value.contiguous()
    (batch, keys, heads, dim), queries = value.shape, left.shape[1]
    context = value.new_zeros(batch, queries, heads, dim)
    peaks, totals = torch.zeros_like(left), torch.zeros_like(left)
    if context.numel() == 0 or keys == 0:
        return context, peaks, totals
    tile = _tile(heads * dim)
    with torch.cuda.device_of(value):
        _over_keys[(batch * queries, cover(heads * dim, tile["BC"]))](
            left, right, value, offsets, sources, context, peaks, totals, context,
            context, int(seed) if rate else 0, queries, keys, heads, dim, slope, rate,
            DROPS=rate > 0, BACKWARD=False, **tile,
        )  # fmt: skip
    return context, peaks, totals


@_forward.register_fake
def _(
    left: Tensor,
    right: Tensor,
    value: Tensor,
    seed: Tensor,
    offsets: Tensor,
    sources: Tensor,
    back: Tensor | None,
    targets: Tensor | None,
    places: Tensor | None,
    slope: float,
    rate: float,
) -> tuple[Tensor, Tensor, Tensor]:
    rows = left.new_empty(left.shape)
    return value.new_empty(*left.shape, value.shape[-1]), rows, torch.empty_like(rows)


@torch.library.custom_op("regard::triton_edges_backward", mutates_args=())
def _backward(
    grad: Tensor,
    context: Tensor,
    peaks: Tensor,
    totals: Tensor,
    left: Tensor,
    right: Tensor,
    value: Tensor,
    seed: Tensor,
    offsets: Tensor,
    sources: Tensor,
    back: Tensor,
    targets: Tensor,
    places: Tensor,
    slope: float,
    rate: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of left, right and value."""
    grad, left, right = grad.contiguous(), left.contiguous(), right.contiguous()
    value = value.contiguous()
    (batch, keys, heads, dim), queries = value.shape, left.shape[1]
    if context.numel() == 0 or keys == 0:
        return torch.zeros_like(left), torch.zeros_like(right), torch.zeros_like(value)
    pack = torch.stack([left, peaks, torch.where(totals > 0, 1 / totals, 0.0)], 2)
    of_left, of_right, of_value = (torch.empty_like(x) for x in (context, value, value))
    tile = _tile(heads * dim)
    columns = cover(heads * dim, tile["BC"])
    number = int(seed) if rate else 0
    with torch.cuda.device_of(value):
        _over_keys[(batch * queries, columns)](
            left, right, value, offsets, sources, context, peaks, totals, grad, of_left,
            number, queries, keys, heads, dim, slope, rate,
            DROPS=rate > 0, BACKWARD=True, **tile,
        )  # fmt: skip
        _over_queries[(batch * keys, columns)](
            pack, right, value, back, targets, places, context, grad, of_right, of_value,
            number, queries, keys, heads, dim, slope, rate, DROPS=rate > 0, **tile,
        )  # fmt: skip
    return of_left.sum(-1), of_right.sum(-1), of_value


@_backward.register_fake
def _(
    grad: Tensor,
    context: Tensor,
    peaks: Tensor,
    totals: Tensor,
    left: Tensor,
    right: Tensor,
    value: Tensor,
    seed: Tensor,
    offsets: Tensor,
    sources: Tensor,
    back: Tensor,
    targets: Tensor,
    places: Tensor,
    slope: float,
    rate: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return left.new_empty(left.shape), right.new_empty(right.shape), value.new_empty(value.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output, *inputs[:9])
    ctx.slope, ctx.rate = inputs[9:]
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 11
    if double_backward_wanted() and not ctx.rate:  # what Triton drops only Triton can draw again
        inputs = (*ctx.saved_tensors[3:], ctx.slope, ctx.rate)
        return double_backward(plain.edges, inputs, (grad,), ctx.needs_input_grad)
    return (*_backward(grad, *ctx.saved_tensors, ctx.slope, ctx.rate), *(None,) * 8)


_forward.register_autograd(_differentiate, setup_context=_keep)
