"""Layer norm and residual connection around a sub-layer; batch norm of maps."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.dropout import dropout_add

__all__ = ["BatchNorm", "PostNorm", "PreNorm", "Residual"]


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


class BatchNorm(nn.Module):
    r"""Batch normalization of maps (Ioffe and Szegedy 2015, arXiv 1502.03167).

    .. math:: y = \gamma \, (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta

    In training μ and σ² are those of the channel over the batch and all places, and a moving
    average of them is taken; in use they are the average. The averages are parameters without a
    gradient: they are saved, averaged and copied with the weights. By their names it reads the
    weights of `torch.nn.BatchNorm2d`.

    Args:
        size: channels.
        momentum: what a batch counts in the average.
    """

    def __init__(self, size: int, momentum: float = 0.1) -> None:
        super().__init__()
        self.momentum = momentum
        self.weight, self.bias = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))
        self.running_mean = nn.Parameter(torch.zeros(size), requires_grad=False)
        self.running_var = nn.Parameter(torch.ones(size), requires_grad=False)

    def forward(
        self, x: Float[Tensor, "batch size high wide"]
    ) -> Float[Tensor, "batch size high wide"]:
        """The maps, each channel normalized."""
        return F.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training,
            self.momentum,
        )
