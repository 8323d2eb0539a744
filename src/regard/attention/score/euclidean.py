"""Scores by Euclidean distance."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention._ops.distances import distance, inverse_scores
from regard.attention.score.base import DotForm

__all__ = ["InverseEuclidean", "NegativeSquaredEuclidean"]


class InverseEuclidean(nn.Module):
    r"""The inverse distance (Yin et al. 2016, ABCNN, section 4.1): between 0 and 1.

    .. math:: e_{ij} = \frac{1}{1 + \lVert q_i - k_j \rVert}

    If both are equal, the gradient of the norm is 0, one of its subgradients.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D) to (*batch, Q, K)
    """

    turns = True

    def prepare(self, key: Tensor) -> Tensor:
        """The keys unchanged."""
        return key

    def forward(
        self,
        query: Float[Tensor, "*#batch q dim"],
        key: Float[Tensor, "*#batch k dim"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "*batch q k"]:
        """The equation as written, from the differences of all pairs."""
        difference = _wide(query).unsqueeze(-2) - _wide(key).unsqueeze(-3)  # (*batch, Q, K, D)
        return (1 / (1 + distance(difference))).to(query.dtype)

    def stream(self, query: Tensor, key: Tensor, *, features: Tensor | None = None) -> Tensor:
        """The same from products, without differences."""
        return inverse_scores(query, key)


class NegativeSquaredEuclidean(nn.Module):
    r"""The negative squared distance: under a softmax, a Gaussian kernel around the query.

    .. math:: e_{ij} = -s \lVert q_i - k_j \rVert^2
                     = s\,(2\, q_i^\top k_j - \lVert k_j \rVert^2 - \lVert q_i \rVert^2)

    The second form is a dot product with two more features, so the fused kernel supports it.
    Nadaraya-Watson regression with a Gaussian of variance :math:`1/(2s)` is this and a softmax.

    Args:
        scale: s, the sharpness; 1 by default.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D) to (*batch, Q, K)

    Source: no single one as an attention; the regression is Nadaraya's and Watson's (both 1964).
    """

    turns = True
    alone = True  # `as_dot` depends on all keys, so ragged sequences are computed one by one

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def prepare(self, key: Tensor) -> Tensor:
        """The keys unchanged."""
        return key

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """[2q, 1, |q|^2] times [k, -|k|^2, -1], all measured from the mean key.

        A distance does not depend on the origin, but the rounding error of the squares does.
        """
        query, key = _wide(query), _wide(key)
        origin = key.detach().mean(dim=-2, keepdim=True).nan_to_num(0.0, 0.0, 0.0)
        query, key = query - origin, key - origin
        norm, ones = query.square().sum(-1, keepdim=True), torch.ones_like(key[..., :1])
        return DotForm(
            torch.cat([2 * query, torch.ones_like(norm), norm], -1),
            torch.cat([key, -key.square().sum(-1, keepdim=True), -ones], -1),
            self.scale,
        )

    def forward(
        self,
        query: Float[Tensor, "*#batch q dim"],
        key: Float[Tensor, "*#batch k dim"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "*batch q k"]:
        """The equation as written, from the differences of all pairs."""
        difference = _wide(query).unsqueeze(-2) - _wide(key).unsqueeze(-3)  # (*batch, Q, K, D)
        return -self.scale * difference.square().sum(-1)

    def extra_repr(self) -> str:
        """Say the scale where it is one's own."""
        return f"scale={self.scale}" if self.scale != 1.0 else ""


def _wide(x: Tensor) -> Tensor:
    """Half precision as float32: in float16 the square of 256 overflows."""
    return x.float() if x.dtype == torch.float16 else x
