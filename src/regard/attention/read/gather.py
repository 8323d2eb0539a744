"""The value of a chosen key."""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["Gather"]


class Gather:
    r"""The value of the key that was chosen: :math:`c_i = v_{s_i}`, for one-hot weights (`Hard`).

    O(d) per query instead of the O(K d) of a weighted sum. A row of zeros (no allowed key) reads
    zeros.

    Shapes:
        weights (*batch, Q, K), value (*batch, K, Dv) to context (*batch, Q, Dv)

    Source: Xu et al. 2015, section 4.1, where it is written as a sum over the one-hot choice.
    """

    one_hot: ClassVar[bool] = True

    def __call__(
        self,
        weights: Float[Tensor, "*batch query key"],
        value: Float[Tensor, "*#batch key value_dim"],
        *,
        at: int | Tensor = 0,
    ) -> Float[Tensor, "*batch query value_dim"]:
        """Gather the chosen rows."""
        if weights.shape[-1] == 0:  # no key was chosen
            return torch.matmul(weights.to(value.dtype), value)
        weight, chosen = weights.max(-1, keepdim=True)  # (*batch, Q, 1)
        batch = torch.broadcast_shapes(weights.shape[:-2], value.shape[:-2])
        index = chosen.expand(*batch, chosen.shape[-2], value.shape[-1])
        taken = value.expand(*batch, *value.shape[-2:]).gather(-2, index)
        return taken * weight.to(taken.dtype)

    def __repr__(self) -> str:
        return "Gather()"
