"""The split linear score of graph attention."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention._ops.split_halves import halves
from regard.errors import RequestError

__all__ = ["SplitLinear"]


class SplitLinear(nn.Module):
    r"""One half from the query and one from the key (Veličković et al. 2018, section 2.1).

    .. math:: e_{ij} = \mathrm{LeakyReLU}(a^\top [q_i \Vert k_j] + b)
              = \mathrm{LeakyReLU}(a_l^\top q_i + a_r^\top k_j + b)

    The split form needs no tensor of all pairs and features. In graph attention queries,
    keys and values are the same projected nodes :math:`W h`.

    Args:
        heads: H, if every head has its own vectors; queries and keys then have a head axis.
        slope: the leaky ReLU's slope below 0; 1 gives a linear score, 0 a ReLU.
        bias: b, one per head; not in the paper, but in its released code.

    Shapes:
        query (*batch, [H,] Q, query_dim), key (*batch, [H,] K, key_dim) to (*batch, [H,] Q, K)

    Raises:
        RequestError: for a negative slope, which would not be monotone.
    """

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        *,
        heads: int | None = None,
        slope: float = 0.2,
        bias: bool = False,
    ) -> None:
        super().__init__()
        if slope < 0:
            raise RequestError(f"SplitLinear expected a slope of 0 or more, got {slope}")
        lead = () if heads is None else (heads,)
        self.heads, self.slope = heads, slope
        self.query = nn.Parameter(torch.empty(*lead, query_dim))
        self.key = nn.Parameter(torch.empty(*lead, key_dim))
        self.bias = nn.Parameter(torch.zeros(lead)) if bias else None
        bound = math.sqrt(6 / (query_dim + key_dim + 1))  # Glorot, of the whole a
        nn.init.uniform_(self.query, -bound, bound)
        nn.init.uniform_(self.key, -bound, bound)

    def prepare(self, key: Float[Tensor, "*batch k _"]) -> Float[Tensor, "*batch k 1"]:
        """The half of each key."""
        self._fits(key, "keys")
        return halves(key, self.key)

    def query_half(self, query: Float[Tensor, "*batch q _"]) -> Float[Tensor, "*batch q 1"]:
        """The half of each query, with the bias."""
        self._fits(query, "queries")
        half = halves(query, self.query)
        return half if self.bias is None else half + self.bias[..., None, None]

    def forward(
        self,
        query: Float[Tensor, "*#batch q _"],
        key: Float[Tensor, "*#batch k 1"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "*batch q k"]:
        """Add the halves; `key` is already the half of each key."""
        return F.leaky_relu(self.query_half(query) + key.transpose(-2, -1), self.slope)

    def _fits(self, x: Tensor, what: str) -> None:
        if self.heads is not None and (x.dim() < 3 or x.shape[-3] != self.heads):
            raise RequestError(
                f"SplitLinear with heads={self.heads} expected {what} (*batch, {self.heads}, "
                f"nodes, dim), got {tuple(x.shape)}"
            )

    def extra_repr(self) -> str:
        """Say the sizes."""
        heads = "" if self.heads is None else f", heads={self.heads}"
        return f"{self.query.shape[-1]}, {self.key.shape[-1]}{heads}, slope={self.slope}"
