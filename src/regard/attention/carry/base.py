"""State that is passed from step to step, as a value: modules store nothing.

With a carry, the queries of a call are independent rows (the hypotheses of a beam) of one step, and
time is the caller's loop.
"""

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.attention.mask import take
from regard.errors import RequestError

__all__ = ["Carry", "CarryState"]


@dataclass(frozen=True)
class CarryState:
    """The carried value, which can be re-ordered with the hypotheses; `heads`: it has a head axis.

    Shapes:
        value (*batch, [head,] query, key)
    """

    value: Tensor
    heads: bool = False

    def select(self, index: Tensor) -> "CarryState":
        """Re-order the hypotheses: the query axis, or the last batch axis if they are there.

        Shapes:
            value (B, [head,] beam, K): index (B, n); value (B, beam, [head,] 1, K): index (B, n)

        Raises:
            RequestError: for an index with another number of axes.
        """
        batch = self.value.dim() - 2 - self.heads
        if index.dim() == batch:
            return replace(self, value=take(self.value, index))
        if index.dim() != batch + 1:
            raise RequestError(
                f"select expected an index with {batch + 1} axes (or {batch}, for hypotheses that "
                f"are a batch axis) for a state {tuple(self.value.shape)}, got "
                f"{tuple(index.shape)}"
            )
        if self.heads:
            index = index.unsqueeze(-2).expand(*self.value.shape[:-2], index.shape[-1])
        return replace(self, value=take(self.value, index))

    def rows(self, index: Tensor) -> "CarryState":
        """Keep rows of the first batch axis."""
        return replace(self, value=self.value.index_select(0, index))


@runtime_checkable
class Carry(Protocol):
    """State between the steps of one sequence."""

    def start(self, query: Tensor, key: Tensor) -> CarryState:
        """The state before the first step."""
        ...

    def features(self, state: CarryState) -> Tensor | None:
        """The features of the state for the score: (*batch, query, key, feature), or None."""
        ...

    def adjust(self, scores: Tensor, state: CarryState) -> Tensor:
        """Change scores by the state."""
        ...

    def update(
        self, scores: Tensor, weights: Tensor, value: Tensor, state: CarryState
    ) -> CarryState:
        """The state after this step; `scores` are those before `adjust`."""
        ...


def _constant(query: Tensor, key: Tensor, fill: float) -> CarryState:
    """The same number for every pair, in the broadcast batch axes of both."""
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    size = (*batch, query.shape[-2], key.shape[-2])
    return CarryState(torch.full(size, fill, dtype=query.dtype, device=query.device))
