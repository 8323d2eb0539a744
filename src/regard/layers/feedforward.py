"""The position-wise feed-forward layer."""

from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.dropout import dropout_relu
from regard.layers.linear import linear

__all__ = ["FeedForward"]


class FeedForward(nn.Module):
    r"""Vaswani et al. (2017, eq. 2): :math:`\max(0,\, x W_1 + b_1)\, W_2 + b_2`.

    Args:
        dropout: on the hidden layer, after the ReLU; the paper has none there.

    Shapes:
        x (*batch, dim) to the same
    """

    def __init__(self, dim: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.into = nn.Linear(dim, hidden)
        self.out = nn.Linear(hidden, dim)
        self.dropout = dropout
        for layer in (self.into, self.out):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Two products with a ReLU between."""
        hidden = dropout_relu(linear(self.into, x), self.dropout, self.training)
        return linear(self.out, hidden)
