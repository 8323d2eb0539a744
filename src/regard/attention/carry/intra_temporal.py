"""The sum of the exponentials of all earlier scores."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from regard.attention.carry.base import CarryState, _constant

__all__ = ["IntraTemporal"]


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
