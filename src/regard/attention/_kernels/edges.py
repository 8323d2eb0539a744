r"""Graph attention in C: one pass over the edges forward, one over the reversed graph backward.

.. math:: e_{ij} = \mathrm{LeakyReLU}(l_i + r_j), \quad
          c_i = \sum_{j \in \mathcal N_i} \mathrm{softmax}_j(e_{ij})\, v_j

No tensor of one entry per edge is stored: the backward pass recomputes the weights from the maximum
and the sum of each row. Dropout is a hash of (seed, edge, head), the same in both passes; the seed
is drawn from PyTorch's generator, so `torch.manual_seed` makes it reproducible.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard import native
from regard.attention._kernels.segment import unsupported_edges_reason
from regard.attention._ops import eager, triton
from regard.attention.call import Attended, Call
from regard.attention.mask import Edges
from regard.attention.read import WeightedSum
from regard.attention.score import SplitLinear
from regard.attention.select import Softmax
from regard.native.constant import constant
from regard.native.derivatives import double_backward, double_backward_wanted
from regard.native.gate import Function
from regard.native.operators import custom_op

__all__ = ["EdgeWise"]

_FORWARD = Function(
    "regard_edges_forward",
    "b",
    "q",
    "k",
    "h",
    "d",
    "e",
    "left: f32 [b q h]",
    "right: f32 [b k h]",
    "value: f32 [b k h d]",
    "offsets: i64 [{q + 1}]",
    "sources: i32 [e]",
    "slope: float",
    "rate: float",
    "seed: i64 [1]",
    "context: f32 [b q h d] out",
    "stats: f32 [b q 2 h] out",
    "threads: threads",
)
_BACKWARD = Function(
    "regard_edges_backward",
    "b",
    "q",
    "k",
    "h",
    "d",
    "e",
    "right: f32 [b k h]",
    "value: f32 [b k h d]",
    "offsets: i64 [{k + 1}]",
    "targets: i32 [e]",
    "places: i32 [e]",
    "slope: float",
    "rate: float",
    "seed: i64 [1]",
    "grad: f32 [b q h d]",
    "pack: f32 [b q 4 h]",
    "of_left: f32 [threads b q h] out",
    "of_right: f32 [b k h] out",
    "of_value: f32 [b k h d] out",
    "threads: threads",
)


class EdgeWise:
    """`SplitLinear`, a softmax and a weighted sum over the edges of a graph: in C or Triton."""

    name = "edges"

    def unsupported_reason(self, call: Call) -> str | None:
        """Other parts, calls that need weights, float64, and installations without C and Triton."""
        why = unsupported_edges_reason(call)
        if why is not None:
            return why
        if type(call.score) is not SplitLinear:
            return f"{type(call.score).__name__} is not SplitLinear"
        if type(call.read) is not WeightedSum:
            return f"{type(call.read).__name__} is not a weighted sum"
        if call.need_weights:
            return "it gives no weights, and need_weights=True"
        if not _available() and (call.query is None or not call.query.is_cuda):
            return "there is no shared object of kernels (regard doctor says why)"
        if call.query is None:
            return None
        query, _, value = call.tensors
        if query.is_cuda and triton.unavailable_reason() is not None:
            return f"its tensors are on a GPU, and {triton.unavailable_reason()}"
        if query.device.type not in ("cpu", "cuda"):
            return f"its tensors are on {query.device.type}"
        if torch.float64 in (query.dtype, value.dtype):
            return "it computes in float32, and the tensors are float64"
        return None

    def run(self, call: Call) -> Attended:
        """Compute the halves of the scores per node and head, then the pass over the edges."""
        score, mask, select, read = call.score, call.mask, call.select, call.read
        assert isinstance(score, SplitLinear)
        assert isinstance(mask, Edges)
        assert isinstance(select, Softmax)
        assert isinstance(read, WeightedSum)
        query, _, value = call.tensors
        queries, keys = query.shape[-2], value.shape[-2]
        mask.check_shape(queries, keys)
        mask = mask.to(value.device)
        assert isinstance(mask, Edges)
        left, right = score.query_half(query)[..., 0], call.keys[..., 0]
        if select.temperature != 1.0:  # leaky(x) / t = leaky(x / t)
            left, right = left / select.temperature, right / select.temperature
        batch = value.shape[:-2]
        if not batch == left.shape[:-1] == right.shape[:-1]:
            batch = torch.broadcast_shapes(left.shape[:-1], right.shape[:-1], batch)
        heads = batch[-1] if batch else 1
        rate = read.dropout if read.training else 0.0
        seed = torch.randint(1 << 62, (1,)) if rate else torch.zeros(1, dtype=torch.int64)
        reversed_ = (mask.back(keys), *mask.reversed) if _learns(left, right, value) else ()
        arguments = (
            _beside(left[..., None], batch, heads)[..., 0],
            _beside(right[..., None], batch, heads)[..., 0],
            _beside(value, batch, heads),
            seed,
            mask.offsets,
            mask.narrow,
            *(reversed_ or (None, None, None)),
            score.slope,
            rate,
        )
        on_gpu = value.is_cuda
        context = triton.edge_attention(*arguments) if on_gpu else _forward(*arguments)[0]
        context = context.transpose(1, 2).reshape(*batch, queries, value.shape[-1])
        return Attended(context.to(value.dtype))


@constant
def _available() -> bool:
    return (
        native.unavailable_reason(_FORWARD.name) is None
        and native.unavailable_reason(_BACKWARD.name) is None
    )


def _learns(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


def _beside(x: Tensor, batch: torch.Size, heads: int) -> Tensor:
    """(*batch, N, D), the last batch axis being heads, to (B, N, H, D) in float32."""
    x = x.float().expand(*batch, *x.shape[-2:])
    rows = batch[:-1].numel() if batch else 1
    return x.reshape(rows, heads, *x.shape[-2:]).transpose(1, 2).contiguous()


@custom_op("regard::edges", mutates_args=())
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
) -> tuple[Tensor, Tensor]:
    """Context (B, Q, H, D), and what the backward pass needs (B, Q, 2, H).

    Shapes:
        left (B, Q, H), right (B, K, H), value (B, K, H, D); the graph: offsets (Q + 1), sources
        (E); reversed, where gradients are wanted: back (K + 1), targets (E), places (E)
    """
    size = value.shape[-1]
    many = len(sources) > 4 * value.shape[1]
    left, right, value = left.contiguous(), right.contiguous(), _whole_lanes(value, many)
    batch, _, heads, dim = value.shape
    queries, edges = left.shape[1], len(sources)
    context = value.new_empty(batch, queries, heads, dim)
    stats = value.new_empty(batch, queries, 2, heads)
    _FORWARD(
        left,
        right,
        value,
        offsets,
        sources,
        slope,
        rate,
        seed,
        context,
        stats,
        native.threads(batch * edges * heads * (dim + 16)),
    )
    return context[..., :size].contiguous(), stats


def _whole_lanes(x: Tensor, many: bool) -> Tensor:
    """(B, N, H, D) with zeros up to a multiple of 8 features, where edges are many."""
    missing = -x.shape[-1] % 8
    return F.pad(x, (0, missing)) if missing and many else x.contiguous()


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
) -> tuple[Tensor, Tensor]:
    batch, _, heads, dim = value.shape
    queries = left.shape[1]
    return (
        value.new_empty(batch, queries, heads, dim),
        value.new_empty(batch, queries, 2, heads),
    )


@custom_op("regard::edges_backward", mutates_args=())
def _backward(
    grad: Tensor,
    context: Tensor,
    stats: Tensor,
    left: Tensor,
    right: Tensor,
    value: Tensor,
    seed: Tensor,
    back: Tensor,
    targets: Tensor,
    places: Tensor,
    slope: float,
    rate: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of left, right and value."""
    queries, edges, size = left.shape[1], len(targets), value.shape[-1]
    delta = torch.linalg.vecdot(grad, context)
    many = edges > 4 * value.shape[1]
    grad, value = _whole_lanes(grad, many), _whole_lanes(value, many)
    right = right.contiguous()
    batch, _, heads, dim = value.shape
    threads = native.threads(batch * edges * heads * (2 * dim + 32))
    pack = left.new_empty(batch, queries, 4, heads)
    pack[:, :, 0], pack[:, :, 1:3], pack[:, :, 3] = left, stats, delta
    of_left = left.new_zeros(threads, batch, queries, heads)
    of_right, of_value = torch.empty_like(right), torch.empty_like(value)
    _BACKWARD(
        right,
        value,
        back,
        targets,
        places,
        slope,
        rate,
        seed,
        grad,
        pack,
        of_left,
        of_right,
        of_value,
        threads,
    )
    return of_left.sum(0), of_right, of_value[..., :size].contiguous()


@_backward.register_fake
def _(
    grad: Tensor,
    context: Tensor,
    stats: Tensor,
    left: Tensor,
    right: Tensor,
    value: Tensor,
    seed: Tensor,
    back: Tensor,
    targets: Tensor,
    places: Tensor,
    slope: float,
    rate: float,
) -> tuple[Tensor, Tensor, Tensor]:
    found = left.new_empty(left.shape), right.new_empty(right.shape), value.new_empty(value.shape)
    return found  # contiguous, whatever the inputs are


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    left, right, value, seed, offsets, sources, back, targets, places, slope, rate = inputs
    ctx.save_for_backward(
        *output, left, right, value, seed, back, targets, places, offsets, sources
    )
    ctx.slope, ctx.rate = slope, rate
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 11
    *saved, offsets, sources = ctx.saved_tensors
    if double_backward_wanted():
        inputs = (*saved[2:6], offsets, sources)
        wanted = ctx.needs_input_grad
        return double_backward(
            eager.edges, (*inputs, None, None, None, ctx.slope, ctx.rate), (grad,), wanted
        )
    found = _backward(grad, *saved, ctx.slope, ctx.rate)
    return (*found, *(None,) * 8)


_forward.register_autograd(_gradients, setup_context=_save)
