"""Scores that are dot products or can be written as dot products."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.score.base import DotForm

__all__ = ["Cosine", "Dot", "General", "ScaledDot"]


class _Product(nn.Module):
    """The base of the dot family: subclasses define `as_dot`, and `forward` computes it."""

    turns = True  # it depends on the angle between both, which rotary positions keep

    def prepare(self, key: Tensor) -> Tensor:
        """The keys unchanged."""
        return key

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """The form of the product: the plain one."""
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
        """The plain product."""
        return DotForm(query, key, self.scale)

    def extra_repr(self) -> str:
        """Say the scale where it is one's own."""
        return f"scale={self.scale}" if self.scale != 1.0 else ""


class ScaledDot(_Product):
    r"""The Transformer's (Vaswani et al. 2017, eq. 1): :math:`e_{ij} = q_i^\top k_j / \sqrt{d_k}`.

    Components of unit variance would give a dot product the variance :math:`d_k`; hence the root.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D) to (*batch, Q, K)
    """

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """A dot product, scaled by the size of the query."""
        return DotForm(query, key, 1.0 / math.sqrt(query.shape[-1]))


class General(_Product):
    r"""The bilinear score (Luong et al. 2015, "general"): :math:`e_{ij} = q_i^\top W k_j`.

    The queries are projected, not the keys, because a decoder step has fewer queries.

    Shapes:
        query (*batch, Q, query_dim), key (*batch, K, key_dim) to (*batch, Q, K)
    """

    turns = False  # W stands between the two

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

    Shapes:
        query (*batch, Q, D), key (*batch, K, D) to (*batch, Q, K)
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
