"""The sum of the weights of all earlier steps."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from regard.attention.carry.base import CarryState, _constant

__all__ = ["Coverage"]


@dataclass(frozen=True)
class Coverage:
    r"""The sum of past weights (See et al. 2017, eq. 10): :math:`\sum_{\tau < t} \alpha_\tau`.

    A score with features reads it (their eq. 11 is `Additive(..., features=1)`); the coverage loss
    of their eq. 12 and Tu et al. (2016, linguistic coverage without fertility) take the state.

    Shapes:
        the state (*batch, Q, K); features (*batch, Q, K, 1)
    """

    feature_dim: ClassVar[int] = 1

    def start(self, query: Tensor, key: Tensor) -> CarryState:
        """Zeros."""
        return _constant(query, key, 0.0)

    def features(self, state: CarryState) -> Tensor | None:
        """The sums, as one feature."""
        return state.value[..., None]

    def adjust(self, scores: Tensor, state: CarryState) -> Tensor:
        """Leave scores as they are."""
        return scores

    def update(
        self, scores: Tensor, weights: Tensor, value: Tensor, state: CarryState
    ) -> CarryState:
        """Add this step's weights."""
        return CarryState(state.value + weights)
