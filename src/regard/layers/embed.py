"""Word vectors, with ids whose vector is zero and stays zero."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Embed"]

PADDING = 0  # protocols.PAD, which is a floor above


class Embed(nn.Module):
    r"""A vector for each id.

    .. math:: e(i) = s\, E_i, \quad e(i) = 0 \text{ for } i \in zeros

    Args:
        vocabulary: number of ids.
        dim: size of a vector.
        zeros: ids whose vector is zero and gets no gradient: padding; in Cho et al. (2014) also the
            start symbol, :math:`e(y_0) = 0`.
        scale: s; the Transformer's is the root of `dim`.

    Shapes:
        ids (*batch) to (*batch, dim)

    Example:
        >>> Embed(10, 4)(torch.tensor([[0, 3]]))[0, 0]
        tensor([0., 0., 0., 0.], grad_fn=<SelectBackward0>)
    """

    def __init__(
        self, vocabulary: int, dim: int, *, zeros: tuple[int, ...] = (PADDING,), scale: float = 1.0
    ) -> None:
        super().__init__()
        self.zeros, self.scale = zeros, scale
        self.weight = nn.Parameter(torch.empty(vocabulary, dim))
        nn.init.normal_(self.weight, std=dim**-0.5)
        self.silence()

    @torch.no_grad()
    def silence(self) -> None:
        """Set the vectors of `zeros` to zero: after an initialization of one's own."""
        for i in self.zeros:
            self.weight[i].zero_()

    def forward(self, ids: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch dim"]:
        """Look up."""
        first = self.zeros[0] if self.zeros else None
        x = F.embedding(ids, self.weight, padding_idx=first)  # no gradient reaches row `first`
        for i in self.zeros[1:]:
            x = x * (ids != i).unsqueeze(-1)
        return x if self.scale == 1.0 else x * self.scale

    def extra_repr(self) -> str:
        """Say the sizes."""
        vocabulary, dim = self.weight.shape
        scale = "" if self.scale == 1.0 else f", scale={self.scale:g}"
        return f"{vocabulary}, {dim}, zeros={self.zeros}{scale}"
