"""The weights of the step before."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from regard.attention.carry.base import CarryState, _constant
from regard.errors import RequestError

__all__ = ["PreviousWeights"]


@dataclass(frozen=True)
class PreviousWeights:
    r"""The weights of the previous step (Chorowski et al. 2015, eq. 5-8): :math:`\alpha_{t-1}`.

    A score with features reads them: `LocationAware`, or `Additive(..., features=1)`.

    Args:
        first: the key that has all weight before the first step (0 in the authors' code: the start
            of the speech); None: all weights are zero.

    Shapes:
        the state (*batch, Q, K); features (*batch, Q, K, 1)
    """

    first: int | None = None
    feature_dim: ClassVar[int] = 1

    def start(self, query: Tensor, key: Tensor) -> CarryState:
        """No weight, or all of it on one key."""
        state = _constant(query, key, 0.0)
        keys = key.shape[-2]
        if self.first is not None and keys:
            if self.first >= keys:
                raise RequestError(
                    f"PreviousWeights expected first to be one of {keys} keys, got {self.first}"
                )
            first = torch.arange(keys, device=key.device) == self.first
            return CarryState(state.value.masked_fill(first, 1.0))
        return state

    def features(self, state: CarryState) -> Tensor | None:
        """The weights, as one feature."""
        return state.value[..., None]

    def adjust(self, scores: Tensor, state: CarryState) -> Tensor:
        """Leave scores as they are."""
        return scores

    def update(
        self, scores: Tensor, weights: Tensor, value: Tensor, state: CarryState
    ) -> CarryState:
        """Keep this step's weights."""
        return CarryState(weights)
