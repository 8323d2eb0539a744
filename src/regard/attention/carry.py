"""What passes from one step to the next, as a value: modules keep nothing.

With a carry, queries are independent rows (the hypotheses of a beam) of one step, and time is a
loop.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.attention.mask import take

__all__ = ["Carry", "CarryState", "Coverage", "PreviousWeights"]


@dataclass(frozen=True)
class CarryState:
    """The carried value (*batch, query, key) and its re-ordering with the hypotheses."""

    value: Tensor

    def select(self, index: Tensor) -> "CarryState":
        """Re-order the queries (hypotheses): index (*batch, n)."""
        return CarryState(take(self.value, index))

    def rows(self, index: Tensor) -> "CarryState":
        """Keep rows of the first batch axis."""
        return CarryState(self.value.index_select(0, index))


@runtime_checkable
class Carry(Protocol):
    """State between the steps of one sequence."""

    def start(self, query: Tensor, key: Tensor) -> CarryState:
        """The state before the first step."""
        ...

    def features(self, state: CarryState) -> Tensor | None:
        """What the score may see of the state: (*batch, query, key, feature), or None."""
        ...

    def adjust(self, scores: Tensor, state: CarryState) -> Tensor:
        """Change scores by the state."""
        ...

    def update(
        self, scores: Tensor, weights: Tensor, value: Tensor, state: CarryState
    ) -> CarryState:
        """The state after this step."""
        ...


class _Weights:
    """What carries of past weights share: they start at zero and are seen as one feature."""

    def start(self, query: Tensor, key: Tensor) -> CarryState:
        return CarryState(
            torch.zeros(*query.shape[:-1], key.shape[-2], dtype=query.dtype, device=query.device)
        )

    def features(self, state: CarryState) -> Tensor | None:
        return state.value[..., None]

    def adjust(self, scores: Tensor, state: CarryState) -> Tensor:
        return scores


class PreviousWeights(_Weights):
    """The weights of the step before (Chorowski et al. 2015): a_{t-1}, zeros at first."""

    def update(
        self, scores: Tensor, weights: Tensor, value: Tensor, state: CarryState
    ) -> CarryState:
        """Keep this step's weights."""
        return CarryState(weights)


class Coverage(_Weights):
    """The sum of all weights so far (Tu et al. 2016; See et al. 2017): how much was looked at."""

    def update(
        self, scores: Tensor, weights: Tensor, value: Tensor, state: CarryState
    ) -> CarryState:
        """Add this step's weights."""
        return CarryState(state.value + weights)
