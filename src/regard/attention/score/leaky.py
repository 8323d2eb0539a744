"""The score of GATv2."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RequestError

__all__ = ["LeakyAdditive"]


class LeakyAdditive(nn.Module):
    r"""Additive attention with a leaky ReLU (Brody, Alon and Yahav 2022, GATv2, eq. 7).

    .. math:: e_{ij} = a^\top \mathrm{LeakyReLU}(q_i + k_j)

    With `SplitLinear`, where the leaky ReLU is outside, all queries order the same keys alike; here
    each query may prefer another key. Queries and keys are projected before,
    :math:`q_i = W_l h_i` and :math:`k_j = W_r h_j`, and the values are the keys.

    Args:
        dim: size of queries and keys.
        heads: H, if every head has its own vector; queries and keys then have a head axis.
        slope: the leaky ReLU's slope below 0.

    Shapes:
        query (*batch, [H,] Q, dim), key (*batch, [H,] K, dim) to (*batch, [H,] Q, K)

    Raises:
        RequestError: for a negative slope.
    """

    def __init__(self, dim: int, *, heads: int | None = None, slope: float = 0.2) -> None:
        super().__init__()
        if slope < 0:
            raise RequestError(f"LeakyAdditive expected a slope of 0 or more, got {slope}")
        self.heads, self.slope = heads, slope
        self.v = nn.Parameter(torch.empty(*(() if heads is None else (heads,)), dim))
        bound = math.sqrt(6 / (dim + 1))  # Glorot
        nn.init.uniform_(self.v, -bound, bound)

    def prepare(self, key: Tensor) -> Tensor:
        """The keys as they are."""
        return key

    def forward(
        self,
        query: Float[Tensor, "*#batch q dim"],
        key: Float[Tensor, "*#batch k dim"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "*batch q k"]:
        """Score every pair."""
        self.check_fits(query, key)
        pairs = F.leaky_relu(query.unsqueeze(-2) + key.unsqueeze(-3), self.slope)
        if self.heads is None:
            return pairs @ self.v.to(pairs.dtype)
        return (pairs @ self.v[:, None, :, None].to(pairs.dtype))[..., 0]

    def check_fits(self, query: Tensor, key: Tensor) -> None:
        """Refuse rows of another size, or without the head axis."""
        dim = self.v.shape[-1]
        for x, what in ((query, "queries"), (key, "keys")):
            headless = self.heads is not None and (x.dim() < 3 or x.shape[-3] != self.heads)
            if x.shape[-1] != dim or headless:
                expected = f"nodes, {dim}" if self.heads is None else f"{self.heads}, nodes, {dim}"
                raise RequestError(
                    f"LeakyAdditive expected {what} (*batch, {expected}), got {tuple(x.shape)}"
                )

    def extra_repr(self) -> str:
        """Say the sizes."""
        heads = "" if self.heads is None else f", heads={self.heads}"
        return f"{self.v.shape[-1]}{heads}, slope={self.slope}"
