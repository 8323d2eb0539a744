"""The expected position of the step before, for monotonic attention."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from regard.attention.carry.base import CarryState, _constant

__all__ = ["Alignment"]


@dataclass(frozen=True)
class Alignment:
    r"""Where a monotonic attention stopped (Raffel et al. 2017): :math:`\alpha_{i-1}`.

    `Monotonic` and `MonotonicChunkwise` continue from it and return its new value. For chunks it
    covers only the keys at which a chunk may end, not the weights of the whole chunk.

    Shapes:
        the state (*batch, Q, K): all of it on the first key before the first step
    """

    feature_dim: ClassVar[int] = 0
    aligns: ClassVar[bool] = True

    def start(self, query: Tensor, key: Tensor) -> CarryState:
        """All of it on the first key."""
        state = _constant(query, key, 0.0)
        state.value[..., :1] = 1.0
        return state

    def features(self, state: CarryState) -> Tensor | None:
        """None: the select reads the state itself."""
        return None

    def adjust(self, scores: Tensor, state: CarryState) -> Tensor:
        """Leave scores as they are."""
        return scores

    def update(
        self, scores: Tensor, weights: Tensor, value: Tensor, state: CarryState
    ) -> CarryState:
        """The unchanged state: `attend` replaces it with the alignment of the select."""
        return state
