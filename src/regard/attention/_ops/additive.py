r"""Additive scores by blocks of plain PyTorch: the (B, Q, K, D) tensor is never stored.

.. math:: e_{ij} = \sum_d v_d \tanh(q_{id} + k_{jd}), \qquad
          \tanh x = 1 - 2 r, \quad r = \frac{1}{1 + e^{2q} e^{2k}}

Exponentials are computed per query and per key, not per pair. Outside the range of e^2q, r is
sigmoid(-2x). Where all x are small, r is computed from tanh, because 1 - 2r would lose its digits.
The backward pass recomputes each block and accumulates gradients in place, so it needs no more
memory than the forward pass:

.. math:: \dot q_{id} = 4 v_d \sum_j g_{ij} (r - r^2), \quad
          \dot k_{jd} = 4 v_d \sum_i g_{ij} (r - r^2), \quad
          \dot v_d = \sum_{ij} g_{ij} (1 - 2 r)
"""

import math
from typing import Any

import torch
from torch import Tensor

from regard.attention._ops import eager, triton
from regard.attention._ops.cpu import additive as native
from regard.native.derivatives import double_backward, double_backward_wanted

__all__ = ["additive_scores", "score_blocks"]

BLOCK = 1 << 17  # pair-features of one block: half a MiB in fp32, which stays in the second cache
RANGE = {torch.float32: 43.0, torch.float64: 350.0}  # |x| whose e^2x is a number and not denormal
SMALL = 0.6


def additive_scores(
    query: Tensor, key: Tensor, v: Tensor, *, packed: Tensor | None = None, heads: int = 1
) -> Tensor:
    """Scores of every pair: in C, on a GPU in Triton, or by blocks of PyTorch.

    On a GPU at most `triton.FEW` numbers (B Q K D) are stored, in plain PyTorch: for a step of a
    decoder, launches of Triton would cost more than the work.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D), v (D,), or (heads, D) for a last batch axis of
        heads, to (*batch, Q, K); batch axes broadcast
    """
    if native.unsupported_reason(query, key, v) is None:
        return native.scores(query, key, v, packed=packed, heads=heads)
    if triton.supports(query, key, v):
        if triton.worthwhile(query, key):
            return triton.additive_scores(query, key, v)
        return eager.additive_scores(query, key, v)
    return score_blocks(query, key, v)


def score_blocks(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    """`additive_scores` by blocks of PyTorch."""
    dtype = torch.promote_types(torch.promote_types(query.dtype, key.dtype), v.dtype)
    if dtype in (torch.float16, torch.bfloat16):
        dtype = torch.float32
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    query = query.to(dtype).expand(*batch, *query.shape[-2:])
    key = key.to(dtype).expand(*batch, *key.shape[-2:])
    if v.dim() == 2:
        heads = [score_blocks(query[..., h, :, :], key[..., h, :, :], v[h]) for h in range(len(v))]
        return torch.stack(heads, -3)
    rows = math.prod(batch)
    query, key = (x.reshape(rows, *x.shape[-2:]) for x in (query, key))
    scores: Tensor = _Scores.apply(query, key, v.to(dtype))  # type: ignore[no-untyped-call]
    return scores.reshape(*batch, *scores.shape[-2:])


def _blocks(batch: int, queries: int, keys: int, dim: int) -> list[tuple[slice, slice]]:
    """(batch rows, queries) of each block: whole rows while they fit, else queries of one row."""
    pair = max(1, keys * dim)
    if queries * pair <= BLOCK:
        rows = max(1, BLOCK // max(1, queries * pair))
        return [(slice(b, b + rows), slice(0, queries)) for b in range(0, batch, rows)]
    width = max(1, BLOCK // pair)
    return [
        (slice(b, b + 1), slice(i, i + width))
        for b in range(batch)
        for i in range(0, queries, width)
    ]


def _largest(x: Tensor) -> float:
    """The largest |x|, NaN where there is one, without a copy of x."""
    return max(abs(end.item()) for end in torch.aminmax(x)) if x.numel() else 0.0


class _Gate:
    """r of a block, by the form that its inputs allow."""

    def __init__(self, query: Tensor, key: Tensor) -> None:
        most = [_largest(x) for x in (query, key)]
        inside = max(most) <= RANGE[query.dtype] and sum(most) <= RANGE[query.dtype]
        self.small = sum(most) < SMALL
        self.factored = inside and not self.small
        self.query, self.key = query, key
        self.one = query.new_ones(())
        self.rows: slice | None = None  # those whose exponentials are at hand

    def __call__(self, b: slice, i: slice) -> Tensor:
        """R - 1/2 for small x, else r: (b, i, K, D)."""
        if self.factored:
            if b != self.rows:
                self.rows = b
                self.powers = (2 * self.query[b]).exp_(), (2 * self.key[b]).exp_()
            query, key = self.powers
            return torch.addcmul(self.one, query[:, i, None], key[:, None]).reciprocal_()
        query, key = self.query[b, i, None], self.key[b, None]
        if self.small:
            return torch.tanh_(query + key).mul_(-0.5)
        return torch.sigmoid_((query + key).mul_(-2))


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(query, key, v)
        batch, queries, dim = query.shape
        keys = key.shape[1]
        scores = query.new_empty(batch, queries, keys)
        gate = _Gate(query, key)
        for b, i in _blocks(batch, queries, keys, dim):
            scores[b, i] = gate(b, i) @ v
        scores.mul_(-2)
        return scores if gate.small else scores.add_(v.sum())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        query, key, v = ctx.saved_tensors
        (grad,) = grads
        if double_backward_wanted():
            wanted = double_backward(
                eager.additive_scores, (query, key, v), grads, ctx.needs_input_grad
            )
            return wanted[0], wanted[1], wanted[2]
        batch, queries, dim = query.shape
        keys = key.shape[1]
        grad_query, grad_key = torch.empty_like(query), torch.zeros_like(key)
        grad_v = torch.zeros_like(v)
        gate = _Gate(query, key)
        for b, i in _blocks(batch, queries, keys, dim):
            g = grad[b, i]  # (b, i, K)
            r = gate(b, i)  # (b, i, K, D)
            grad_v += g.reshape(-1) @ r.view(-1, dim)
            if gate.small:
                torch.addcmul(r.new_tensor(0.25), r, r, value=-1, out=r)
            else:
                r.addcmul_(r, r, value=-1)
            r.mul_(g[..., None])
            grad_query[b, i] = r.sum(2)
            grad_key[b] += r.sum(1)
            del r  # before the next one is made
        scale = 4 * v
        total = 0.0 if gate.small else grad.sum()
        return grad_query.mul_(scale), grad_key.mul_(scale), total - 2 * grad_v
