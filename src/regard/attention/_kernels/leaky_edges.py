r"""The score of GATv2 on the edges of a graph, :math:`a^\top \mathrm{LeakyReLU}(q_i + k_j)`.

Neither pass stores a tensor of edges times features: they are gathered block by block, again in the
backward pass.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention._kernels.edge_blocks import blocks
from regard.attention.mask import Edges
from regard.native.derivatives import double_backward, double_backward_wanted
from regard.native.transforms import followed

__all__ = ["edge_leaky"]


def edge_leaky(
    query: Float[Tensor, "*#batch query dim"],
    key: Float[Tensor, "*#batch key dim"],
    v: Tensor,
    slope: float,
    edges: Edges,
) -> Float[Tensor, "*batch edge"]:
    """The score of each edge.

    Shapes:
        v (dim,), or (head, dim) where heads are the last batch axis
    """
    dtype = torch.promote_types(torch.promote_types(query.dtype, key.dtype), torch.float32)
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], v.shape[:-1])
    query, key = (
        x.to(dtype).expand(*batch, -1, -1).reshape(math.prod(batch), *x.shape[-2:])
        for x in (query, key)
    )
    v = v.to(dtype).expand(*batch, -1).reshape(math.prod(batch), v.shape[-1])
    graph = edges.targets, edges.sources, slope
    if followed(query, key, v) is not None:
        return _eager(query, key, v, *graph).reshape(*batch, len(edges))
    found: Tensor = _LeakyEdges.apply(query, key, v, *graph)  # type: ignore[no-untyped-call]
    return found.reshape(*batch, len(edges))


def _eager(
    query: Tensor, key: Tensor, v: Tensor, targets: Tensor, sources: Tensor, slope: float
) -> Tensor:
    """All edges at once: (B, Q, D), (B, K, D), (B, D) to (B, E)."""
    rows = query.index_select(1, targets) + key.index_select(1, sources)
    return (F.leaky_relu(rows, slope) @ v[..., None])[..., 0]


class _LeakyEdges(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        v: Tensor,
        targets: Tensor,
        sources: Tensor,
        slope: float,
    ) -> Tensor:
        ctx.save_for_backward(query, key, v, targets, sources)
        ctx.slope = slope
        out = query.new_empty(query.shape[0], len(targets))
        for e in blocks(query, len(targets)):
            rows = query.index_select(1, targets[e]).add_(key.index_select(1, sources[e]))
            out[:, e] = (F.leaky_relu(rows, slope, inplace=True) @ v[..., None])[..., 0]
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, v, targets, sources = ctx.saved_tensors
        if double_backward_wanted():
            inputs = (query, key, v, targets, sources, ctx.slope)
            return double_backward(_eager, inputs, grads, ctx.needs_input_grad)
        of_query, of_key, of_v = (torch.zeros_like(x) for x in (query, key, v))
        for e in blocks(query, len(targets)):
            g = grads[0][:, e]
            rows = query.index_select(1, targets[e]).add_(key.index_select(1, sources[e]))
            steep = torch.where(rows > 0, 1.0, ctx.slope).to(rows)
            of_v += (g[:, None] @ rows.mul_(steep))[:, 0]
            steep.mul_(g[..., None]).mul_(v[:, None])
            of_query.index_add_(1, targets[e], steep)
            of_key.index_add_(1, sources[e], steep)
        return of_query, of_key, of_v, None, None, None
