"""Dot products with relative position vectors."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.position.by_offset import by_offset

__all__ = ["RelativeKeys"]


class RelativeKeys(nn.Module):
    r"""Scaled dot product with relative keys (Shaw et al. 2018, eq. 4).

    .. math:: e_{ij} = \frac{q_i^\top \big(k_j + a^K_{\mathrm{clip}(j - p_i,\,-c,\,c)}\big)}
                            {\sqrt{d}}

    Offsets are key minus query, :math:`p_i = at + i`, and the relative term is scaled too. The
    paper uses it in self-attention only.

    Args:
        dim: d, the size of queries and keys (of one head).
        clip: c, the largest distance with its own vector; 16 in the paper's base model.
        heads: the number of heads with their own tables, as in the paper's base model; None shares
            one table, as in its big model.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D) to (*batch, Q, K); the table ([head,] 2c + 1, D)
    """

    def __init__(self, dim: int, clip: int = 16, *, heads: int | None = None) -> None:
        super().__init__()
        self.clip = clip
        self.table = offset_table(dim, clip, heads)

    @property
    def heads(self) -> int | None:
        """The number of heads with their own tables."""
        return self.table.shape[0] if self.table.dim() == 3 else None

    def prepare(self, key: Tensor) -> Tensor:
        """The keys unchanged."""
        return key

    def forward(
        self,
        query: Float[Tensor, "*#batch q dim"],
        key: Float[Tensor, "*#batch k dim"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "*batch q k"]:
        """The equation as written, with a (Q, K, D) tensor of relative keys."""
        table = self.table.to(query.dtype)
        relative = by_offset(
            table, self.clip, query.shape[-2], key.shape[-2], at, per_head=table.dim() == 3
        )  # ([*batch,] [head,] Q, K, D)
        query = query / math.sqrt(query.shape[-1])
        own = torch.matmul(query, key.transpose(-2, -1))
        return own + torch.matmul(relative, query.unsqueeze(-1)).squeeze(-1)

    def extra_repr(self) -> str:
        """Say the clip and the shape of the table."""
        return f"clip={self.clip}, table={tuple(self.table.shape)}"


def offset_table(dim: int, clip: int, heads: int | None) -> nn.Parameter:
    """A vector for each offset (and head), uniform in Glorot's range as in the authors' code."""
    size = (2 * clip + 1, dim) if heads is None else (heads, 2 * clip + 1, dim)
    bound = math.sqrt(6 / (2 * clip + 1 + dim))
    return nn.Parameter(torch.empty(size).uniform_(-bound, bound))
