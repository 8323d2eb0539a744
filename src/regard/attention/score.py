"""How well does a key match the query? One small class a score.

A score is called as `score(query, key, at=…, features=…)` and gives (*batch, Q, K). What depends on
the keys alone is done once per memory by `prepare`, and the call then takes what `prepare` gave.
A score that is a dot product in disguise says so by `as_dot`; kernels for dot products then do it.
"""

import math
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention._kernels.additive import additive_scores
from regard.errors import RequestError

__all__ = [
    "Additive",
    "Cosine",
    "Dot",
    "DotForm",
    "DotLike",
    "General",
    "Location",
    "ScaledDot",
    "Score",
]


class DotForm(NamedTuple):
    """A score written as `scale * query @ key^T`."""

    query: Tensor
    key: Tensor
    scale: float


@runtime_checkable
class Score(Protocol):
    """A match between queries and keys. `key` is what `prepare` gave for the keys."""

    def prepare(self, key: Tensor) -> Tensor:
        """Do once per memory what depends on the keys alone."""
        ...

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Tensor:
        """Score every pair: (*batch, Q, Dq), prepared keys (*batch, K, ·) to (*batch, Q, K)."""
        ...


@runtime_checkable
class DotLike(Protocol):
    """A score that can be written as a dot product."""

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """Say the product."""
        ...


@runtime_checkable
class Streaming(Protocol):
    """A score with a blockwise form that never stores a tensor of all pairs and features."""

    def stream(self, query: Tensor, key: Tensor) -> Tensor:
        """Score every pair by blocks."""
        ...


class _Product(nn.Module):
    """What the dot family shares: each says its own `as_dot`, and here it is multiplied out."""

    def prepare(self, key: Tensor) -> Tensor:
        """Keys as they are."""
        return key

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """Say the product: here the plain one."""
        return DotForm(query, key, 1.0)

    def forward(
        self,
        query: Float[Tensor, "*#batch q _"],
        key: Float[Tensor, "*#batch k _"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "*batch q k"]:
        """Multiply."""
        query, key, scale = self.as_dot(query, key)
        return torch.matmul(query if scale == 1.0 else query * scale, key.transpose(-2, -1))


class Dot(_Product):
    r"""The dot product (Luong et al. 2015, "dot"): :math:`e_{ij} = s\, q_i^\top k_j`.

    Args:
        scale: s, 1 by default.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D) to (*batch, Q, K)
    """

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """Itself."""
        return DotForm(query, key, self.scale)

    def extra_repr(self) -> str:
        """Say the scale where it is one's own."""
        return f"scale={self.scale}" if self.scale != 1.0 else ""


class ScaledDot(_Product):
    r"""The Transformer's (Vaswani et al. 2017, eq. 1): :math:`e_{ij} = q_i^\top k_j / \sqrt{d_k}`.

    Components of unit variance would give a dot product the variance :math:`d_k`; hence the root.
    """

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """A dot product, scaled by the size of the query."""
        return DotForm(query, key, 1.0 / math.sqrt(query.shape[-1]))


class General(_Product):
    r"""The bilinear score (Luong et al. 2015, "general"): :math:`e_{ij} = q_i^\top W k_j`.

    The queries are projected, not the keys: they are fewer in a decoder step.

    Shapes:
        query (*batch, Q, query_dim), key (*batch, K, key_dim) to (*batch, Q, K)
    """

    def __init__(self, query_dim: int, key_dim: int) -> None:
        super().__init__()
        self.project = nn.Linear(query_dim, key_dim, bias=False)

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """A dot product with the projected query."""
        return DotForm(self.project(query), key, 1.0)


class Cosine(_Product):
    r"""The cosine (Graves et al. 2014): :math:`e_{ij} = s\, \cos(q_i, k_j)`.

    Args:
        scale: s, the sharpness; a number.
        epsilon: lower bound of a norm, so that a zero vector has cosine 0 and finite gradients.
    """

    def __init__(self, scale: float = 1.0, epsilon: float = 1e-8) -> None:
        super().__init__()
        self.scale, self.epsilon = scale, epsilon

    def prepare(self, key: Tensor) -> Tensor:
        """Keys of length 1."""
        return F.normalize(key, dim=-1, eps=self.epsilon)

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """A dot product of unit vectors."""
        return DotForm(F.normalize(query, dim=-1, eps=self.epsilon), key, self.scale)


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


class Location(nn.Module):
    r"""From the query alone (Luong et al. 2015, "location"): :math:`e_i = W q_i`.

    W has one row for each position of a key.
    The table has a fixed size: for shorter memories it is cut, and keys past its end are ignored
    (the paper's footnote 6).

    Shapes:
        query (*batch, Q, query_dim), key (*batch, K, ·) to (*batch, Q, K)
    """

    def __init__(self, query_dim: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Linear(query_dim, max_length, bias=False)

    def prepare(self, key: Tensor) -> Tensor:
        """Only how many keys there are matters."""
        return key

    def forward(
        self,
        query: Float[Tensor, "*#batch q _"],
        key: Float[Tensor, "*#batch k _"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "*batch q k"]:
        """One score a position, whatever the key there."""
        keys, size = key.shape[-2], self.table.out_features
        scores = F.linear(query, self.table.weight[:keys])  # (*batch, Q, min(K, max_length))
        if keys > size:
            scores = F.pad(scores, (0, keys - size), value=-math.inf)
        return scores.expand(*torch.broadcast_shapes(query.shape[:-2], key.shape[:-2]), -1, -1)
