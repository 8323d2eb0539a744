"""Scores from the query alone."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Location"]


class Location(nn.Module):
    r"""Scores that depend only on the query (Luong et al. 2015, "location"): :math:`e_i = W q_i`.

    W has one row for each position of a key.
    The table has a fixed size: it is truncated for shorter memories, and keys beyond its end are
    ignored (the paper's footnote 6).

    Shapes:
        query (*batch, Q, query_dim), key (*batch, K, ·) to (*batch, Q, K)
    """

    def __init__(self, query_dim: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Linear(query_dim, max_length, bias=False)

    def prepare(self, key: Tensor) -> Tensor:
        """The keys; only their number is used."""
        return key

    def forward(
        self,
        query: Float[Tensor, "*#batch q _"],
        key: Float[Tensor, "*#batch k _"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "*batch q k"]:
        """One score per position."""
        keys, size = key.shape[-2], self.table.out_features
        if type(self.table) is nn.Linear:
            scores = F.linear(query, self.table.weight[:keys])  # (*batch, Q, min(K, max_length))
        else:  # another layer was put in its place, a quantized one say
            scores = self.table(query)[..., :keys]
        if keys > size:
            scores = F.pad(scores, (0, keys - size), value=-math.inf)
        return scores.expand(*torch.broadcast_shapes(query.shape[:-2], key.shape[:-2]), -1, -1)
