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

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.attention._ops import eager
from regard.attention._ops.triton._edges import over_keys, over_queries
from regard.attention._ops.triton._math import cover, power
from regard.native.derivatives import double_backward, double_backward_wanted
from regard.native.operators import custom_op

__all__ = ["edge_attention"]


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
    run = _contexts if torch.compiler.is_compiling() else _Contexts.apply
    context: Tensor = run(left, right, value, seed, *graph, slope, rate)[0]
    return context


def _tile(columns: int) -> dict[str, int]:
    """A tile of edges by columns, about 512 numbers: pointers to each take registers."""
    wide = min(128, power(columns))
    return {"BE": min(32, 512 // wide), "BC": wide, "num_warps": 2}


def _run_forward(
    left: Tensor,
    right: Tensor,
    value: Tensor,
    seed: Tensor,
    offsets: Tensor,
    sources: Tensor,
    slope: float,
    rate: float,
) -> tuple[Tensor, Tensor]:
    """Context (B, Q, H, D), and the pack (B, Q, 3, H): a query's half, its peak and 1 / total."""
    left, right, value = left.contiguous(), right.contiguous(), value.contiguous()
    (batch, keys, heads, dim), queries = value.shape, left.shape[1]
    context = value.new_empty(batch, queries, heads, dim)
    pack = value.new_empty(batch, queries, 3, heads)
    if context.numel() == 0 or keys == 0:
        return context.zero_(), pack.zero_()
    tile = _tile(heads * dim)
    with torch.cuda.device_of(value):
        over_keys[(batch * queries, cover(heads * dim, tile["BC"]))](
            left,
            right,
            value,
            offsets,
            sources,
            context,
            pack,
            context,
            context,
            int(seed) if rate else 0,
            queries,
            keys,
            heads,
            dim,
            slope,
            rate,
            DROPS=rate > 0,
            BACKWARD=False,
            **tile,
        )
    return context, pack


def _run_backward(
    grad: Tensor,
    context: Tensor,
    pack: Tensor,
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
    of_left, of_right, of_value = (torch.empty_like(x) for x in (context, value, value))
    tile = _tile(heads * dim)
    columns = cover(heads * dim, tile["BC"])
    number = int(seed) if rate else 0
    with torch.cuda.device_of(value):
        over_keys[(batch * queries, columns)](
            left,
            right,
            value,
            offsets,
            sources,
            context,
            pack,
            grad,
            of_left,
            number,
            queries,
            keys,
            heads,
            dim,
            slope,
            rate,
            DROPS=rate > 0,
            BACKWARD=True,
            **tile,
        )
        over_queries[(batch * keys, columns)](
            pack,
            right,
            value,
            back,
            targets,
            places,
            context,
            grad,
            of_right,
            of_value,
            number,
            queries,
            keys,
            heads,
            dim,
            slope,
            rate,
            DROPS=rate > 0,
            **tile,
        )
    return of_left.sum(-1), of_right.sum(-1), of_value


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output, *inputs[:9])
    ctx.slope, ctx.rate = inputs[9:]
    ctx.set_materialize_grads(False)


def _differentiate(
    run: Callable[..., Any], ctx: Any, grad: Tensor | None, *_: Tensor | None
) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 11
    if double_backward_wanted() and not ctx.rate:  # what Triton drops only Triton can draw again
        inputs = (*ctx.saved_tensors[2:], ctx.slope, ctx.rate)
        return double_backward(eager.edges, inputs, (grad,), ctx.needs_input_grad)
    return (*run(grad, *ctx.saved_tensors, ctx.slope, ctx.rate), *(None,) * 8)


class _Contexts(torch.autograd.Function):
    """The operation in eager mode, without the overhead of a custom operator."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        output = _run_forward(*inputs[:6], *inputs[9:])
        _keep(ctx, inputs, output)
        return output[:1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return _differentiate(_run_backward, ctx, *grads)


@custom_op("regard::triton_edges", mutates_args=())
def _contexts(
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
) -> tuple[Tensor, Tensor]:
    return _run_forward(left, right, value, seed, offsets, sources, slope, rate)


@_contexts.register_fake
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
) -> tuple[Tensor, Tensor]:
    batch, queries, heads = left.shape
    pack = left.new_empty(batch, queries, 3, heads)
    return value.new_empty(*left.shape, value.shape[-1]), pack


@custom_op("regard::triton_edges_backward", mutates_args=())
def _gradients(
    grad: Tensor,
    context: Tensor,
    pack: Tensor,
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
    graph = offsets, sources, back, targets, places
    return _run_backward(grad, context, pack, left, right, value, seed, *graph, slope, rate)


@_gradients.register_fake
def _(
    grad: Tensor,
    context: Tensor,
    pack: Tensor,
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


_contexts.register_autograd(partial(_differentiate, _gradients), setup_context=_keep)
