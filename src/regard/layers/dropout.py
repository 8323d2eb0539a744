"""Dropout as a layer; the function is in `regard.native`."""

from jaxtyping import Float
from torch import Tensor, nn

from regard.native.dropout import dropout, dropout_add, dropout_relu

__all__ = ["Dropout", "dropout", "dropout_add", "dropout_relu"]


class Dropout(nn.Module):
    """`dropout` as a module."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Apply dropout in training."""
        return dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """Say the probability."""
        return f"p={self.p}"
