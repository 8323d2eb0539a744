r"""Graph attention in plain PyTorch: softmax and sums within segments.

Two products over the edges of a graph are each other's gradients, and neither stores a tensor of
edges times features:

.. math:: (\mathrm{edge\_dot})\; e_{ij} = q_i^\top k_j, \qquad
          (\mathrm{edge\_sum})\; c_i = \sum_{j \in \mathcal N_i} w_{ij} v_j
"""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.attention._kernels.edge_blocks import blocks
from regard.attention._kernels.leaky_edges import edge_leaky
from regard.attention._ops import eager
from regard.attention.call import Attended, Call
from regard.attention.mask import Edges
from regard.attention.plain import exactly
from regard.attention.read import WeightedSum
from regard.attention.score import Additive, DotLike, LeakyAdditive, SplitLinear
from regard.attention.select import Softmax
from regard.native.csr import compressed
from regard.native.derivatives import double_backward, double_backward_wanted
from regard.native.dropout import dropout
from regard.native.operators import custom_op
from regard.native.transforms import followed

__all__ = [
    "Segment",
    "edge_dot",
    "edge_sum",
    "edge_weights",
    "segment_softmax",
    "shared_additive",
    "unsupported_edges_reason",
]


class Segment:
    """Scores of single query-key pairs, computed only for the edges of a graph."""

    name = "segment"
    plain = True

    def unsupported_reason(self, call: Call) -> str | None:
        """Everything but pairwise scores with a softmax and a weighted sum over `Edges`."""
        why = unsupported_edges_reason(call)
        if why is not None:
            return why
        if type(call.read) is not WeightedSum:
            return f"{type(call.read).__name__} is not a weighted sum"
        score = call.score
        paired = isinstance(score, SplitLinear | LeakyAdditive)
        if hasattr(score, "as_dot") or paired or shared_additive(score):
            return None
        return f"{type(score).__name__} is not known to be decided by one query and one key"

    def run(self, call: Call) -> Attended:
        """Score the edges, normalize within each query, sum."""
        mask, read, value = call.mask, call.read, call.tensors[2]
        assert isinstance(mask, Edges)
        assert isinstance(read, WeightedSum)
        mask = mask.to(value.device)
        weights = edge_weights(call)
        dropped = dropout(weights, read.dropout) if read.dropout and read.training else weights
        return Attended(edge_sum(dropped, value, mask).to(value.dtype), weights)


def shared_additive(score: object) -> bool:
    """Whether a score is a perceptron without features, shared by all heads."""
    return type(score) is Additive and score.features is None and score.v.dim() == 1


def unsupported_edges_reason(call: Call) -> str | None:
    """Why neither kernel over edges supports a call, in a clause, or None."""
    if not exactly(call.mask, Edges):
        return "the mask is not the edges of a graph"
    if type(call.select) is not Softmax:
        return f"{type(call.select).__name__} is not a softmax"
    if call.position is not None:
        return f"{type(call.position).__name__} changes queries, keys or scores"
    if call.carry is not None:
        return f"{type(call.carry).__name__} carries one number a pair"
    return None


def edge_weights(call: Call) -> Float[Tensor, "*batch edge"]:
    """The weights of a call that `Segment` supports, with any read."""
    mask, select, (query, _, value) = call.mask, call.select, call.tensors
    assert isinstance(mask, Edges)
    assert isinstance(select, Softmax)
    mask.check_shape(query.shape[-2], value.shape[-2])
    mask = mask.to(query.device)
    scores = _scores(call, mask)
    if select.temperature != 1.0:
        scores = scores / select.temperature
    return segment_softmax(scores, mask.targets, mask.queries)


def _scores(call: Call, mask: Edges) -> Tensor:
    """The score of each edge: (*batch, edge)."""
    (query, key, _), score = call.tensors, call.score
    if isinstance(score, Additive):
        form = score.additive(query, key, call.prepared)
        return _edge_additive(form.query, form.key, form.v, mask)
    keys = call.keys
    if isinstance(score, LeakyAdditive):
        score.check_fits(query, keys)
        return edge_leaky(query, keys, score.v, score.slope, mask)
    if isinstance(score, SplitLinear):
        half = score.query_half(query)[..., 0].index_select(-1, mask.targets)
        return F.leaky_relu(half + keys[..., 0].index_select(-1, mask.sources), score.slope)
    assert isinstance(score, DotLike)
    query, keys, scale = score.as_dot(query, keys)
    return edge_dot(query if scale == 1.0 else query * scale, keys, mask)


def segment_softmax(
    scores: Float[Tensor, "*batch edge"], segment: Int[Tensor, " edge"], count: int
) -> Float[Tensor, "*batch edge"]:
    r"""Softmax within segments: :math:`w_e = \exp e_e / \sum_{s(f) = s(e)} \exp e_f`.

    Args:
        segment: the segment of each score, below `count`, in any order.
    """
    if scores.dtype in (torch.bfloat16, torch.float16):
        scores = scores.float()
    index = segment.expand_as(scores)
    shape = (*scores.shape[:-1], count)
    top = scores.new_zeros(shape).scatter_reduce(
        -1, index, scores.detach(), "amax", include_self=False
    )
    weights = torch.exp(scores - top.index_select(-1, segment))
    total = scores.new_zeros(shape).scatter_add(-1, index, weights)
    return weights / total.index_select(-1, segment)


def edge_sum(
    weights: Float[Tensor, "*#batch edge"], value: Float[Tensor, "*#batch key dim"], edges: Edges
) -> Float[Tensor, "*batch query dim"]:
    """Sum the values of each query's neighbors by their weights."""
    batch = torch.broadcast_shapes(weights.shape[:-1], value.shape[:-2])
    weights, value = _alike(weights, value)
    flat = weights.expand(*batch, -1).reshape(math.prod(batch), weights.shape[-1])
    rows = value.expand(*batch, -1, -1).reshape(math.prod(batch), *value.shape[-2:])
    if followed(flat, rows) is not None:
        made = eager.edge_sum(flat, rows, edges.targets, edges.sources, edges.queries)
        return made.reshape(*batch, *made.shape[-2:])
    found: Tensor = _Sum.apply(flat, rows, *_graph(edges, rows.shape[-2]))  # type: ignore[no-untyped-call]
    return found.reshape(*batch, *found.shape[-2:])


def edge_dot(
    query: Float[Tensor, "*#batch query dim"], key: Float[Tensor, "*#batch key dim"], edges: Edges
) -> Float[Tensor, "*batch edge"]:
    """Multiply the two ends of each edge."""
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    query, key = (
        x.expand(*batch, -1, -1).reshape(math.prod(batch), *x.shape[-2:])
        for x in _alike(query, key)
    )
    if followed(query, key) is not None:
        return eager.edge_dot(query, key, edges.targets, edges.sources).reshape(*batch, len(edges))
    found: Tensor = _Dot.apply(query, key, *_graph(edges, key.shape[-2]))  # type: ignore[no-untyped-call]
    return found.reshape(*batch, len(edges))


def _alike(*tensors: Tensor) -> list[Tensor]:
    """In one dtype, fp32 at least."""
    dtype = torch.float32
    for x in tensors:
        dtype = torch.promote_types(dtype, x.dtype)
    return [x.to(dtype) for x in tensors]


def _graph(edges: Edges, keys: int) -> tuple[Tensor, ...]:
    """Offsets, sources and targets; the reversed graph's offsets over all keys, and its order."""
    return edges.offsets, edges.sources, edges.targets, edges.back(keys), edges.order


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor, *graph: Tensor) -> Tensor:
        ctx.save_for_backward(weights, value, *graph)
        out: Tensor = _sum(weights, value, graph[0], graph[1])
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weights, value, *graph = ctx.saved_tensors
        offsets, sources, targets, back, order = graph
        if double_backward_wanted():
            inputs = (weights, value, targets, sources, len(offsets) - 1)
            return double_backward(eager.edge_sum, inputs, grads, ctx.needs_input_grad)
        grad = grads[0].contiguous()
        of_weights = of_value = None
        if ctx.needs_input_grad[0]:
            of_weights = _dot(grad, value, targets, sources)
        if ctx.needs_input_grad[1]:
            of_value = _sum(weights[:, order], grad, back, targets[order])
        return of_weights, of_value, None, None, None, None, None


class _Dot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, *graph: Tensor) -> Tensor:
        ctx.save_for_backward(query, key, *graph)
        out: Tensor = _dot(query, key, graph[2], graph[1])
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, *graph = ctx.saved_tensors
        offsets, sources, targets, back, order = graph
        if double_backward_wanted():
            inputs = (query, key, targets, sources)
            return double_backward(eager.edge_dot, inputs, grads, ctx.needs_input_grad)
        grad = grads[0].contiguous()
        of_query = of_key = None
        if ctx.needs_input_grad[0]:
            of_query = _sum(grad, key, offsets, sources)
        if ctx.needs_input_grad[1]:
            of_key = _sum(grad[:, order], query, back, targets[order])
        return of_query, of_key, None, None, None, None, None


@custom_op("regard::edge_sum", mutates_args=())
def _sum(weights: Tensor, value: Tensor, offsets: Tensor, columns: Tensor) -> Tensor:
    """(B, E), (B, K, D) to (B, Q, D), as a product with a sparse matrix for each row of B."""
    shape = (len(offsets) - 1, value.shape[1])
    out = value.new_empty(len(value), shape[0], value.shape[2])
    for b in range(len(value)):
        matrix = compressed(offsets, columns, weights[b], shape)
        torch.mm(matrix, value[b].contiguous(), out=out[b])
    return out


@_sum.register_fake
def _(weights: Tensor, value: Tensor, offsets: Tensor, columns: Tensor) -> Tensor:
    return value.new_empty(value.shape[0], offsets.shape[0] - 1, value.shape[2])


@custom_op("regard::edge_dot", mutates_args=())
def _dot(query: Tensor, key: Tensor, targets: Tensor, sources: Tensor) -> Tensor:
    """(B, Q, D), (B, K, D) to (B, E), gathered block by block."""
    out = query.new_empty(len(query), len(targets))
    for e in blocks(query, len(targets)):
        rows = query.index_select(1, targets[e])
        out[:, e] = rows.mul_(key.index_select(1, sources[e])).sum(-1)
    return out


@_dot.register_fake
def _(query: Tensor, key: Tensor, targets: Tensor, sources: Tensor) -> Tensor:
    return query.new_empty(query.shape[0], targets.shape[0])


def _edge_additive(query: Tensor, key: Tensor, v: Tensor, edges: Edges) -> Tensor:
    r"""The perceptron score of each edge, :math:`v^\top \tanh(q_i + k_j)`: (*batch, edge)."""
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    query, key, v = _alike(query, key, v)
    query = query.expand(*batch, -1, -1).reshape(math.prod(batch), *query.shape[-2:])
    key = key.expand(*batch, -1, -1).reshape(math.prod(batch), *key.shape[-2:])
    if followed(query, key, v) is not None:
        made = eager.edge_additive(query, key, v, edges.targets, edges.sources)
        return made.reshape(*batch, len(edges))
    found: Tensor = _AdditiveEdges.apply(query, key, v, edges.targets, edges.sources)  # type: ignore[no-untyped-call]
    return found.reshape(*batch, len(edges))


class _AdditiveEdges(torch.autograd.Function):
    """With tanh x = 2 sigmoid(2x) - 1, which PyTorch computes ten times faster; see `additive`."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, v: Tensor, targets: Tensor, sources: Tensor
    ) -> Tensor:
        ctx.save_for_backward(query, key, v, targets, sources)
        out = query.new_empty(query.shape[0], len(targets))
        for e in blocks(query, len(targets)):
            out[:, e] = _gate(query, key, targets[e], sources[e]) @ v
        return out.mul_(2).sub_(v.sum())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, v, targets, sources = ctx.saved_tensors
        if double_backward_wanted():
            inputs = (query, key, v, targets, sources)
            return double_backward(eager.edge_additive, inputs, grads, ctx.needs_input_grad)
        of_query, of_key, of_v = (torch.zeros_like(x) for x in (query, key, v))
        for e in blocks(query, len(targets)):
            g = grads[0][:, e]
            gate = _gate(query, key, targets[e], sources[e])
            of_v += g.reshape(-1) @ gate.flatten(0, 1)
            gate.addcmul_(gate, gate, value=-1).mul_(g[..., None])
            of_query.index_add_(1, targets[e], gate)
            of_key.index_add_(1, sources[e], gate)
        return of_query * (4 * v), of_key * (4 * v), 2 * of_v - grads[0].sum(), None, None


def _gate(query: Tensor, key: Tensor, targets: Tensor, sources: Tensor) -> Tensor:
    """sigmoid(2 (q_i + k_j)) of some edges: (B, edge, D)."""
    rows = query.index_select(1, targets).add_(key.index_select(1, sources))
    return rows.mul_(2).sigmoid_()
