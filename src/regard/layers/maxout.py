"""Maxout: the largest of several linear maps (Goodfellow et al. 2013)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RequestError

__all__ = ["Maxout", "maxout"]


def maxout(x: Float[Tensor, "*batch inputs"], pieces: int = 2) -> Float[Tensor, "*batch outputs"]:
    r"""The largest of each `pieces` consecutive features.

    .. math:: y_i = \max(x_{2i-1}, x_{2i}) \quad\text{(1-based, two pieces)}

    Consecutive features, as in Cho et al. (2014, appendix A) and Bahdanau et al. (2015, A.2.2);
    other implementations take the maximum of the two halves.

    Raises:
        RequestError: if the size is not a multiple of `pieces`.
    """
    if x.shape[-1] % pieces:
        raise RequestError(
            f"maxout expected a size that is a multiple of pieces={pieces}, got {x.shape[-1]}"
        )
    if pieces == 2:
        return torch.maximum(x[..., 0::2], x[..., 1::2])
    return x.reshape(*x.shape[:-1], -1, pieces).amax(-1)


class Maxout(nn.Module):
    r"""A linear map and the maximum of each `pieces` consecutive outputs.

    .. math:: y = \mathrm{maxout}(W x + b)

    Shapes:
        x (*batch, inputs) to (*batch, outputs)
    """

    def __init__(self, inputs: int, outputs: int, *, pieces: int = 2, bias: bool = True) -> None:
        super().__init__()
        self.pieces = pieces
        self.linear = nn.Linear(inputs, pieces * outputs, bias=bias)

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """Map and take the maxima."""
        return maxout(self.linear(x), self.pieces)

    def extra_repr(self) -> str:
        """Say how many pieces."""
        return f"pieces={self.pieces}"
