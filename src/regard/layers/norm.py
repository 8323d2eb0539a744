"""Layer norm and residual connection around a sub-layer."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.dropout import dropout_add

__all__ = ["PostNorm", "PreNorm", "Residual"]


class Residual(nn.Module):
    """A residual connection with a layer norm, one per sub-layer.

    Args:
        dropout: on the sub-layer's output, before it is added.
    """

    final: bool
    """Whether a stack of these needs one more norm at its end."""

    def __init__(self, dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.dropout = dropout

    def add(self, x: Tensor, onto: Tensor) -> Tensor:
        """Add x after dropout."""
        return dropout_add(x, onto, self.dropout, self.training)


class PostNorm(Residual):
    r"""As in the Transformer paper: :math:`\mathrm{LN}(x + \mathrm{Dropout}(F(x)))`."""

    final = False

    def forward(
        self, x: Float[Tensor, "*batch t dim"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*batch t dim"]:
        """Add, then normalize."""
        out: Tensor = self.norm(self.add(sublayer(x), x))
        return out


class PreNorm(Residual):
    r"""tensor2tensor's later default: :math:`x + \mathrm{Dropout}(F(\mathrm{LN}(x)))`.

    The stack then needs a final norm. Deep stacks train without warm-up (Wang et al. 2019).
    """

    final = True

    def forward(
        self, x: Float[Tensor, "*batch t dim"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*batch t dim"]:
        """Normalize, then add."""
        return self.add(sublayer(self.norm(x)), x)
