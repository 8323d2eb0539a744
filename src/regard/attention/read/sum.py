"""The weighted sum."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["WeightedSum"]


class WeightedSum(nn.Module):
    r"""The expected value under the weights: :math:`c_i = \sum_j w_{ij} v_j`.

    Args:
        dropout: probability of dropping a weight while training (Transformer toolkits' attention
            dropout; the Transformer paper itself has none). The weights that callers and watchers
            see are those before dropout.

    Shapes:
        weights (*batch, Q, K), value (*batch, K, Dv) to context (*batch, Q, Dv)
    """

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout

    def forward(
        self,
        weights: Float[Tensor, "*batch query key"],
        value: Float[Tensor, "*#batch key value_dim"],
        *,
        at: int | Tensor = 0,
    ) -> Float[Tensor, "*batch query value_dim"]:
        """Average the values."""
        if self.dropout and self.training:
            weights = F.dropout(weights, self.dropout)
        if weights.dtype != value.dtype and not torch.is_autocast_enabled(weights.device.type):
            weights = weights.to(value.dtype)
        return torch.matmul(weights, value)

    def extra_repr(self) -> str:
        """Say the dropout where there is one."""
        return f"dropout={self.dropout}" if self.dropout else ""
