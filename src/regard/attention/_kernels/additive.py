r"""Additive scores by blocks of plain PyTorch: the (B, Q, K, D) tensor is never stored.

.. math:: e_{ij} = \sum_d v_d \tanh(q_{id} + k_{jd}), \qquad \tanh x = 2\,\sigma(2x) - 1

On a CPU, PyTorch's sigmoid is ten times faster than its tanh, hence the form. The backward pass
computes each block again and adds into gradients in place, so it needs no more memory than the
forward one:

.. math:: \dot q_{id} = v_d \sum_j g_{ij}(1 - t_{ijd}^2), \quad
          \dot k_{jd} = v_d \sum_i g_{ij}(1 - t_{ijd}^2), \quad
          \dot v_d = \sum_{ij} g_{ij} t_{ijd}
"""

from typing import Any

import torch
from torch import Tensor

__all__ = ["additive_scores"]

BLOCK = 1 << 19  # pair-features of one block: 2 MiB in fp32, which stays in the second-level cache


def additive_scores(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    """Scores of every pair.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D), v (D,) to (*batch, Q, K); batch axes broadcast
    """
    dtype = torch.promote_types(torch.promote_types(query.dtype, key.dtype), v.dtype)
    if dtype in (torch.float16, torch.bfloat16):
        dtype = torch.float32
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    query = query.to(dtype).expand(*batch, *query.shape[-2:]).reshape(-1, *query.shape[-2:])
    key = key.to(dtype).expand(*batch, *key.shape[-2:]).reshape(-1, *key.shape[-2:])
    scores: Tensor = _Scores.apply(query, key, v.to(dtype))  # type: ignore[no-untyped-call]
    return scores.reshape(*batch, *scores.shape[-2:])


def _blocks(batch: int, queries: int, keys: int, dim: int) -> list[tuple[slice, slice]]:
    """(batch rows, queries) of each block: whole rows while they fit, else queries of one row."""
    pair = max(1, keys * dim)
    if queries * pair <= BLOCK:
        rows = max(1, BLOCK // (queries * pair))
        return [(slice(b, b + rows), slice(0, queries)) for b in range(0, batch, rows)]
    width = max(1, BLOCK // pair)
    return [
        (slice(b, b + 1), slice(i, i + width))
        for b in range(batch)
        for i in range(0, queries, width)
    ]


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(query, key, v)
        batch, queries, dim = query.shape
        keys = key.shape[1]
        scores = query.new_empty(batch, queries, keys)
        query2, key2 = 2 * query, 2 * key
        for b, i in _blocks(batch, queries, keys, dim):
            gate = torch.sigmoid_(query2[b, i, None] + key2[b, None])  # (b, i, K, D)
            scores[b, i] = gate @ v
        return scores.mul_(2).sub_(v.sum())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, v = ctx.saved_tensors
        (grad,) = grads
        batch, queries, dim = query.shape
        keys = key.shape[1]
        grad_query, grad_key = torch.empty_like(query), torch.zeros_like(key)
        grad_v = torch.zeros_like(v)
        query2, key2 = 2 * query, 2 * key
        for b, i in _blocks(batch, queries, keys, dim):
            g = grad[b, i]  # (b, i, K)
            gate = torch.sigmoid_(query2[b, i, None] + key2[b, None])  # (b, i, K, D)
            grad_v += g.reshape(-1) @ gate.view(-1, dim)
            gate.addcmul_(gate, gate, value=-1).mul_(g[..., None])  # g * sigma * (1 - sigma)
            grad_query[b, i] = gate.sum(2)
            grad_key[b] += gate.sum(1)
        scale = 4 * v  # d tanh(x) = 4 sigma(2x) (1 - sigma(2x)) dx
        return grad_query * scale, grad_key * scale, 2 * grad_v - grad.sum()
