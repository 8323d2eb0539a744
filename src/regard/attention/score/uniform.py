"""The uniform score, a baseline."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.score.base import DotForm

__all__ = ["Uniform"]


class Uniform(nn.Module):
    r"""The same score for every pair: :math:`e_{ij} = 0`. Under a softmax, the mean of the values.

    The baseline of every attention (the average of the states), and mean pooling under a mask.

    Shapes:
        query (*batch, Q, ·), key (*batch, K, ·) to (*batch, Q, K)
    """

    def prepare(self, key: Tensor) -> Tensor:
        """The keys; only their number is used."""
        return key

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """A dot product of zeros."""
        return DotForm(
            query.new_zeros(*query.shape[:-1], 1), key.new_zeros(*key.shape[:-1], 1), 1.0
        )

    def forward(
        self,
        query: Float[Tensor, "*#batch q _"],
        key: Float[Tensor, "*#batch k _"],
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Float[Tensor, "*batch q k"]:
        """Zeros."""
        batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
        return query.new_zeros(*batch, query.shape[-2], key.shape[-2])
