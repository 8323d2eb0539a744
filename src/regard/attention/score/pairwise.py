"""Dot products with additional terms of the query and of the key."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.score.base import DotForm

__all__ = ["Biaffine", "Trilinear"]


class Trilinear(nn.Module):
    r"""The score of BiDAF (Seo et al. 2017, eq. 1).

    .. math:: e_{ij} = w^\top [q_i; k_j; q_i \circ k_j]
                     = a^\top q_i + b^\top k_j + (c \circ q_i)^\top k_j, \quad w = [a; b; c]

    The second form is a dot product with two more features; the (Q, K, 3D) tensor of the first is
    never stored. Under a softmax over keys the term of the query cancels; it matters where scores
    are compared between queries (BiDAF's query-to-context direction, `OverQueries`).

    Args:
        dim: D, the size of queries and keys.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D) to (*batch, Q, K)
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.empty(3, dim))  # rows a, b, c
        bound = 1 / math.sqrt(3 * dim)
        nn.init.uniform_(self.w, -bound, bound)

    def prepare(self, key: Tensor) -> Tensor:
        """Keys with their own term and a one appended: (*batch, K, D + 2)."""
        own = (key @ self.w[1]).unsqueeze(-1)
        return torch.cat([key, own, torch.ones_like(own)], -1)

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """[c q, 1, a q] times [k, b k, 1]."""
        a, _, c = self.w
        own = (query @ a).unsqueeze(-1)
        return DotForm(torch.cat([c * query, torch.ones_like(own), own], -1), key, 1.0)

    def forward(
        self,
        query: Float[Tensor, "*#batch q _"],
        key: Float[Tensor, "*#batch k _"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "*batch q k"]:
        """Multiply; `key` is already prepared."""
        product = self.as_dot(query, key)
        return torch.matmul(product.query, product.key.transpose(-2, -1))


class Biaffine(nn.Module):
    r"""The deep biaffine score (Dozat & Manning 2017, eq. 2).

    .. math:: e_{ij} = q_i^\top U k_j \; [+\, u^\top k_j] \; [+\, w^\top q_i] \; [+\, b]

    written as :math:`[q_i; 1]^\top U' [k_j; 1]`, a dot product with the projected query. Their arc
    scorer has only the term of the key (the prior of the head word); their label scorer has all.

    Args:
        query_dim, key_dim: sizes of queries and keys.
        query_bias: append a one to the query: the term of the key, :math:`u^\top k_j`.
        key_bias: append a one to the key: the term of the query, :math:`w^\top q_i`; with both, b.
        heads: the number of heads with their own U'; None: one for all. Labels can be heads: with
            `query.unsqueeze(-3)` the scores are (*batch, label, Q, K) (Yu et al. 2020, spans).

    Shapes:
        query (*batch, [head,] Q, query_dim), key (*batch, [head,] K, key_dim) to
        (*batch, [head,] Q, K)
    """

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        *,
        query_bias: bool = True,
        key_bias: bool = False,
        heads: int | None = None,
    ) -> None:
        super().__init__()
        self.query_bias, self.key_bias = query_bias, key_bias
        size = (query_dim + query_bias, key_dim + key_bias)
        self.weight = nn.Parameter(torch.zeros(size if heads is None else (heads, *size)))
        bound = math.sqrt(6 / (query_dim + key_dim))  # Glorot's, of U; the other terms start at 0
        nn.init.uniform_(self.weight.detach()[..., :query_dim, :key_dim], -bound, bound)

    @property
    def heads(self) -> int | None:
        """The number of heads with their own U'."""
        return self.weight.shape[0] if self.weight.dim() == 3 else None

    def prepare(self, key: Tensor) -> Tensor:
        """Keys, with a one appended if there is a key bias."""
        return F.pad(key, (0, 1), value=1.0) if self.key_bias else key

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """A dot product with the projected query."""
        if self.query_bias:
            projected = query @ self.weight[..., :-1, :] + self.weight[..., -1:, :]
        else:
            projected = query @ self.weight
        return DotForm(projected, key, 1.0)

    def forward(
        self,
        query: Float[Tensor, "*#batch q _"],
        key: Float[Tensor, "*#batch k _"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "..."]:
        """Multiply; `key` is already prepared."""
        product = self.as_dot(query, key)
        return torch.matmul(product.query, product.key.transpose(-2, -1))

    def extra_repr(self) -> str:
        """Say the terms and the shape of U'."""
        return (
            f"weight={tuple(self.weight.shape)}, query_bias={self.query_bias}, "
            f"key_bias={self.key_bias}"
        )
