"""The weighted sum of values with relative position vectors."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.position.by_offset import by_offset
from regard.attention.score.relative import offset_table
from regard.native.dropout import dropout

__all__ = ["RelativeValues"]


class RelativeValues(nn.Module):
    r"""Values with relative vectors (Shaw et al. 2018, eq. 3).

    .. math:: c_i = \sum_j w_{ij} \big(v_j + a^V_{\mathrm{clip}(j - p_i,\,-c,\,c)}\big)

    Args:
        dim: size of the values (of one head).
        clip: c, the largest distance with its own vector; 16 in the paper's base model.
        heads: the number of heads with their own tables; None shares one table.
        dropout: probability of dropping a weight in training, as in `WeightedSum`.

    Shapes:
        weights (*batch, Q, K), value (*batch, K, Dv) to context (*batch, Q, Dv);
        the table ([head,] 2c + 1, Dv)
    """

    def __init__(
        self, dim: int, clip: int = 16, *, heads: int | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.clip, self.dropout = clip, dropout
        self.table = offset_table(dim, clip, heads)

    @property
    def heads(self) -> int | None:
        """The number of heads with their own tables."""
        return self.table.shape[0] if self.table.dim() == 3 else None

    def forward(
        self,
        weights: Float[Tensor, "*batch query key"],
        value: Float[Tensor, "*#batch key value_dim"],
        *,
        at: int | Tensor = 0,
    ) -> Float[Tensor, "*batch query value_dim"]:
        """The equation as written, with a (Q, K, Dv) tensor of relative values."""
        if self.dropout and self.training:
            weights = dropout(weights, self.dropout)
        weights = weights.to(value.dtype)
        queries, keys = weights.shape[-2:]
        table = self.table.to(value.dtype)
        relative = by_offset(table, self.clip, queries, keys, at, per_head=table.dim() == 3)
        own = torch.matmul(weights, value)
        return own + torch.matmul(weights.unsqueeze(-2), relative).squeeze(-2)

    def extra_repr(self) -> str:
        """Say the clip, the shape of the table, and the dropout where there is one."""
        dropout = f", dropout={self.dropout}" if self.dropout else ""
        return f"clip={self.clip}, table={tuple(self.table.shape)}{dropout}"
