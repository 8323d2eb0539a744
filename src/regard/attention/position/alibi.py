"""Linear biases: a penalty for distance, with one slope per head."""

import math

import torch
from torch import Tensor

from regard.attention.position.distance import _Distance
from regard.errors import RequestError

__all__ = ["ALiBi"]


class ALiBi(_Distance):
    r"""Attention with linear biases (Press et al. 2022, section 3): a fixed slope for each head.

    .. math:: e_{hij} \leftarrow e_{hij} - m_h\, |j - p_i|, \qquad m_h = 2^{-8h/H}, \; h = 1 … H

    If H is not a power of two, the slopes are those of the next lower power n, then every other
    slope of 2n, as in the authors' code. The paper's attention is causal; without `Causal()` the
    bias is their symmetric one for encoders.

    Args:
        heads: H, the size of the head axis of the scores.

    Shapes:
        scores (*batch, head, Q, K)

    Raises:
        RequestError: for fewer than one head.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        if heads < 1:
            raise RequestError(f"ALiBi expected at least one head, got {heads}")
        self.m: Tensor
        self.register_buffer("m", torch.tensor(_slopes(heads)), persistent=False)

    def constant(self, name: str, like: Tensor) -> Tensor:
        """The slopes."""
        return torch.tensor(_slopes(len(like)))

    @property
    def heads(self) -> int:
        """The number of heads."""
        return len(self.m)

    @property
    def slopes(self) -> Tensor:
        """One slope per head."""
        return self.m

    def extra_repr(self) -> str:
        """Say the number of heads."""
        return f"heads={len(self.m)}"


def _slopes(heads: int) -> list[float]:
    """The published slopes."""
    power = 1 << (heads.bit_length() - 1)
    slopes = [math.pow(2.0, -8.0 * h / power) for h in range(1, power + 1)]
    between = [math.pow(2.0, -8.0 * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return slopes + between[: heads - power]
