"""The softmax."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.select.base import OverAllKeys
from regard.errors import RequestError

__all__ = ["Softmax", "masked_log_softmax", "masked_softmax", "narrowed", "sharpened"]


@dataclass(frozen=True)
class Softmax(OverAllKeys):
    r"""The standard weights (Bahdanau et al. 2015, eq. 6).

    .. math:: w_{ij} = \frac{\exp(e_{ij} / \tau)}{\sum_k \exp(e_{ik} / \tau)}

    Args:
        temperature: :math:`\tau > 0`; smaller is sharper.

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K): rows sum to 1, empty rows are zeros
    """

    temperature: float = 1.0
    sums: ClassVar[str] = "over keys"

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise RequestError(f"Softmax expected a temperature above 0, got {self.temperature}")

    def __call__(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Exponentiate and normalize."""
        return masked_softmax(sharpened(scores, self.temperature), mask).to(scores.dtype), None

    def log_weights(
        self, scores: Float[Tensor, "..."], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "..."]:
        """Log-weights, for reads in log space."""
        return narrowed(masked_log_softmax(sharpened(scores, self.temperature), mask), scores.dtype)


def sharpened(scores: Float[Tensor, "..."], temperature: float) -> Float[Tensor, "..."]:
    """Scores divided by a temperature; half precision in float32, to avoid overflow."""
    if temperature == 1.0:
        return scores
    return (scores.float() if scores.dtype == torch.float16 else scores) / temperature


def narrowed(logs: Float[Tensor, "..."], dtype: torch.dtype) -> Float[Tensor, "..."]:
    """Logarithms in another dtype; finite values stay finite."""
    if logs.dtype == dtype:
        return logs
    hidden = logs == -torch.inf
    return logs.clamp_min(torch.finfo(dtype).min).to(dtype).masked_fill(hidden, -torch.inf)


def masked_softmax(
    scores: Float[Tensor, "..."], mask: Bool[Tensor, "..."] | None = None, dim: int = -1
) -> Float[Tensor, "..."]:
    """Softmax over the allowed keys; zeros elsewhere, and in empty rows.

    Masked scores become the lowest *finite* number, not minus infinity. So the softmax of an empty
    row (which is then set to zero) and its gradients are finite: nothing is ever NaN.
    """
    if mask is None:
        return torch.softmax(scores, dim)
    hidden = ~mask
    weights = torch.softmax(scores.masked_fill(hidden, torch.finfo(scores.dtype).min), dim)
    return weights.masked_fill(hidden, 0.0)


def masked_log_softmax(
    scores: Float[Tensor, "..."], mask: Bool[Tensor, "..."] | None = None, dim: int = -1
) -> Float[Tensor, "..."]:
    """The logarithm of `masked_softmax`: minus infinity, without gradient, where it is zero."""
    if mask is None:
        return torch.log_softmax(scores, dim)
    hidden = ~mask
    logs = torch.log_softmax(scores.masked_fill(hidden, torch.finfo(scores.dtype).min), dim)
    return logs.masked_fill(hidden, -torch.inf)
