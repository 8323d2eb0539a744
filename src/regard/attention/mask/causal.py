"""Masks by distance: the past alone, or a window around each query."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.mask.base import FAR, Mask, offsets, whole
from regard.errors import RequestError

__all__ = ["Causal", "Window"]


@dataclass(frozen=True)
class Window(Mask):
    r"""Only keys at most `left` before and `right` after the query's position; None: no limit.

    .. math:: M_{ij} = [\, p_i - left \le j \le p_i + right \,], \quad p_i = at + i

    Args:
        left, right: how many keys on each side of the query's own position; None for all.

    Shapes:
        the mask (Q, K), or (*batch, Q, K) where `at` has an axis for the batch

    Raises:
        RequestError: for a limit below 0, or one that is no whole number.

    Source: Vaswani et al. 2017, section 4, "restricted self-attention", with r = left + right + 1.
    """

    left: int | None = None
    right: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("left", self.left), ("right", self.right)):
            whole(f"Window expected {name}", value)
            if value is not None and value < 0:
                raise RequestError(f"Window expected {name} >= 0 or None, got {value}")
            if value is not None and value > FAR:
                object.__setattr__(self, name, FAR)

    def dense(
        self, queries: int, keys: int, *, at: int | Tensor, device: torch.device
    ) -> Bool[Tensor, "..."]:
        offset = offsets(queries, keys, at, device)  # j - p_i
        allowed = torch.ones_like(offset, dtype=torch.bool)
        if self.left is not None:
            allowed = allowed & (offset >= -self.left)
        if self.right is not None:
            allowed = allowed & (offset <= self.right)
        return allowed

    def over_heads(self, batch_axes: int) -> Mask:
        return self


@dataclass(frozen=True)
class Causal(Window):
    r"""No key after the query's position.

    .. math:: M_{ij} = [\, j \le p_i \,], \quad p_i = at + i

    With the default position of the first query (`K - Q`) the mask is aligned at the bottom right,
    so one query with a cache sees the whole past.

    Args:
        left: the largest number of keys before the query's position, as in `Window`.

    Shapes:
        the mask (Q, K), or (*batch, Q, K) where `at` has an axis for the batch

    Source: Vaswani et al. 2017, section 3.2.3, of the decoder's self-attention.
    """

    right: int | None = 0
