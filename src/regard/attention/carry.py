"""State that is passed from step to step, as a value: modules store nothing.

With a carry, the queries of a call are independent rows (the hypotheses of a beam) of one step, and
time is the caller's loop.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.attention.mask import take
from regard.errors import RequestError

__all__ = ["Alignment", "Carry", "CarryState", "Coverage", "IntraTemporal", "PreviousWeights"]


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
            state.value[..., self.first] = 1.0
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


@dataclass(frozen=True)
class IntraTemporal:
    r"""Lowers the scores of keys that scored high before (Paulus et al. 2018, eq. 2-4).

    .. math:: e'_{tj} = \begin{cases} \exp(e_{tj}) & t = 1 \\
              \exp(e_{tj}) \big/ \sum_{\tau < t} \exp(e_{\tau j}) & t > 1 \end{cases}

    and the weights are :math:`e'` normalized, i.e. the softmax of
    :math:`e_{tj} - \mathrm{logsumexp}_{\tau < t}\, e_{\tau j}`. The state is that logarithm of the
    raw scores, so nothing overflows; it is minus infinity before the first step.

    Shapes:
        the state (*batch, Q, K)
    """

    feature_dim: ClassVar[int] = 0

    def start(self, query: Tensor, key: Tensor) -> CarryState:
        """The logarithm of an empty sum."""
        return _constant(query, key, -torch.inf)

    def features(self, state: CarryState) -> Tensor | None:
        """None: it changes the scores themselves."""
        return None

    def adjust(self, scores: Tensor, state: CarryState) -> Tensor:
        """Subtract the logarithm of the previous scores."""
        return scores - state.value.masked_fill(state.value == -torch.inf, 0.0)

    def update(
        self, scores: Tensor, weights: Tensor, value: Tensor, state: CarryState
    ) -> CarryState:
        """Add this step's scores, as logarithms."""
        # Before the first step the logarithm is replaced: -inf minus -inf has no derivative.
        new = state.value == -torch.inf
        both = torch.logaddexp(state.value.masked_fill(new, 0.0), scores)
        return CarryState(torch.where(new, scores, both))


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


def _constant(query: Tensor, key: Tensor, fill: float) -> CarryState:
    """The same number for every pair, in the broadcast batch axes of both."""
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    size = (*batch, query.shape[-2], key.shape[-2])
    return CarryState(torch.full(size, fill, dtype=query.dtype, device=query.device))
