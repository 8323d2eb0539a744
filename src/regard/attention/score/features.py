"""Feature-wise scores: one number per pair and feature (Shen et al. 2018, DiSAN)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RequestError
from regard.native.gemm import linear

__all__ = ["FeatureAdditive", "FeaturePerceptron", "SourceToToken"]


class FeatureAdditive(nn.Module):
    r"""The bounded score of DiSAN's token2token attention.

    .. math:: f_{ijd} = c \tanh\big( [W^{(1)} k_j + W^{(2)} q_i + b]_d / c \big)

    :math:`|f| \le c` for all inputs, so a streaming softmax needs no maximum.

    Args:
        query_dim, key_dim: sizes of queries and keys.
        features: D, as many as the values have.
        scale: c > 0; the paper takes 5.

    Shapes:
        query (*batch, Q, query_dim), key (*batch, K, key_dim) to (*batch, Q, K, D)

    Raises:
        RequestError: for a scale that is not positive.

    Source: Shen et al. 2018, section 3.2; in its authors' code one bias is shared by both maps.
    """

    per_feature = True

    def __init__(self, query_dim: int, key_dim: int, features: int, *, scale: float = 5.0) -> None:
        super().__init__()
        if not scale > 0:
            raise RequestError(f"FeatureAdditive expected a scale above 0, got {scale}")
        self.query = nn.Linear(query_dim, features, bias=False)
        self.key = nn.Linear(key_dim, features)
        self.scale = scale
        _start(self)

    def prepare(self, key: Tensor) -> Tensor:
        """Project the keys: (*batch, K, D)."""
        return linear(self.key, key)

    def forward(
        self,
        query: Float[Tensor, "*#batch q _"],
        key: Float[Tensor, "*#batch k feature"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "*batch q k feature"]:
        """The equation as written; `key` is already projected."""
        pairs = linear(self.query, query).unsqueeze(-2) + key.unsqueeze(-3)  # (*batch, Q, K, D)
        return torch.tanh(pairs / self.scale) * self.scale

    def extra_repr(self) -> str:
        """Say the bound."""
        return f"scale={self.scale}"


class FeaturePerceptron(nn.Module):
    r"""The perceptron score with a vector output: multi-dimensional attention to a query.

    .. math:: f_{ij} = W^\top \sigma\big( W^{(1)} k_j + W^{(2)} q_i + b^{(1)} \big) + b

    The bias b is shared by all keys and does not change a softmax; it is in the paper.

    Args:
        query_dim, key_dim: sizes of queries and keys.
        features: D, as many as the values have.
        hidden: size inside, D by default.
        activation: :math:`\sigma`, ELU by default.

    Shapes:
        query (*batch, Q, query_dim), key (*batch, K, key_dim) to (*batch, Q, K, D)

    Source: Shen et al. 2018, section 3.1.
    """

    per_feature = True

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        features: int,
        *,
        hidden: int | None = None,
        activation: nn.Module | None = None,
    ) -> None:
        super().__init__()
        hidden = features if hidden is None else hidden
        self.query = nn.Linear(query_dim, hidden, bias=False)
        self.key = nn.Linear(key_dim, hidden)
        self.activation = nn.ELU() if activation is None else activation
        self.out = nn.Linear(hidden, features)
        _start(self)

    def prepare(self, key: Tensor) -> Tensor:
        """Project the keys: (*batch, K, hidden)."""
        return linear(self.key, key)

    def forward(
        self,
        query: Float[Tensor, "*#batch q _"],
        key: Float[Tensor, "*#batch k hidden"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "*batch q k feature"]:
        """The equation as written; `key` is already projected."""
        hidden = linear(self.query, query).unsqueeze(-2) + key.unsqueeze(
            -3
        )  # (*batch, Q, K, hidden)
        return linear(self.out, self.activation(hidden))


class SourceToToken(nn.Module):
    r"""DiSAN's source2token: scores depend only on the keys, so a sentence becomes one vector.

    .. math:: f_j = W^\top \sigma\big( W^{(1)} k_j + b^{(1)} \big) + b

    Every query gets the same scores; pass any single query, for example `key[..., :1, :]`. The
    scores are computed by `prepare`.

    Args:
        key_dim: size of the keys.
        features: D, as many as the values have; None for the vector form, one number per key
            (:math:`w^\top \sigma(\cdot) + b`, an additive score without a query), which goes with
            Softmax and WeightedSum.
        hidden: size inside, D by default (`key_dim` in the vector form).
        activation: :math:`\sigma`, ELU by default.

    Shapes:
        query (*batch, Q, ·), key (*batch, K, key_dim) to (*batch, Q, K, D), or (*batch, Q, K)

    Source: Shen et al. 2018, section 3.3.
    """

    def __init__(
        self,
        key_dim: int,
        features: int | None = None,
        *,
        hidden: int | None = None,
        activation: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if hidden is None:
            hidden = key_dim if features is None else features
        self.key = nn.Linear(key_dim, hidden)
        self.activation = nn.ELU() if activation is None else activation
        self.out = nn.Linear(hidden, 1 if features is None else features)
        self.vector = features is None
        _start(self)

    @property
    def per_feature(self) -> bool:
        """Whether there is one number per feature."""
        return not self.vector

    def prepare(self, key: Tensor) -> Tensor:
        """Score the keys: (*batch, K, D), with D = 1 in the vector form."""
        return linear(self.out, self.activation(linear(self.key, key)))

    def forward(
        self,
        query: Float[Tensor, "*#batch q _"],
        key: Float[Tensor, "*#batch k feature"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "..."]:
        """The same scores for every query; `key` is already scored."""
        batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
        scores = key.unsqueeze(-3).expand(*batch, query.shape[-2], *key.shape[-2:])
        return scores.squeeze(-1) if self.vector else scores

    def extra_repr(self) -> str:
        """Say the form."""
        return "one number a key" if self.vector else ""


def _start(score: nn.Module) -> None:
    """Glorot weights and zero biases, as in the paper's code."""
    for layer in score.children():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
