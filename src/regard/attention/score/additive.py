"""The perceptron score."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention._kernels.additive import additive_scores
from regard.errors import RequestError

__all__ = ["Additive"]


class Additive(nn.Module):
    r"""The perceptron score (Bahdanau et al. 2015, A.1.2; Luong's "concat").

    .. math:: e_{ij} = v^\top \tanh(W q_i + U k_j \; [+\, F f_{ij} + b])

    :math:`U k_j` is computed once per memory. Luong's :math:`W_a[h; \bar h]` is the same function
    with
    :math:`W_a = [W\, U]`.

    Args:
        hidden: size of the perceptron.
        bias: b inside the tanh; the released code of the paper has none.
        features: size of f, what a carry shows of itself (coverage, previous weights); 0 for none.

    Shapes:
        query (*batch, Q, query_dim), key (*batch, K, key_dim) to (*batch, Q, K)
    """

    def __init__(
        self, query_dim: int, key_dim: int, hidden: int, *, bias: bool = False, features: int = 0
    ) -> None:
        super().__init__()
        self.query = nn.Linear(query_dim, hidden, bias=False)
        self.key = nn.Linear(key_dim, hidden, bias=bias)
        self.features = nn.Linear(features, hidden, bias=False) if features else None
        self.v = nn.Parameter(torch.empty(hidden))
        nn.init.uniform_(self.v, -1 / math.sqrt(hidden), 1 / math.sqrt(hidden))

    @property
    def feature_dim(self) -> int:
        """How many features of a carry it looks at."""
        return 0 if self.features is None else self.features.in_features

    def prepare(self, key: Tensor) -> Tensor:
        """Project the keys: (*batch, K, hidden)."""
        projected: Tensor = self.key(key)
        return projected

    def stream(self, query: Tensor, key: Tensor) -> Tensor:
        """The same by blocks: (*batch, Q, K, hidden) is never stored, nor kept for backward."""
        return additive_scores(self.query(query), key, self.v)

    def forward(
        self,
        query: Float[Tensor, "*#batch q _"],
        key: Float[Tensor, "*#batch k hidden"],
        *,
        at: int | Tensor = 0,
        features: Float[Tensor, "*#batch q k feature"] | None = None,
    ) -> Float[Tensor, "*batch q k"]:
        """The equation as it is written; `key` is already projected."""
        hidden = self.query(query).unsqueeze(-2) + key.unsqueeze(-3)  # (*batch, Q, K, hidden)
        if features is not None:
            if self.features is None:
                raise RequestError(
                    "this Additive score was built without features but its carry gives some; "
                    f"build it with Additive(..., features={features.shape[-1]})"
                )
            hidden = hidden + self.features(features)
        return torch.tanh(hidden) @ self.v.to(hidden.dtype)
