"""The softmax."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention._ops.softmax import masked_log_softmax, masked_softmax
from regard.attention.select.base import OverAllKeys
from regard.errors import RequestError

__all__ = ["Softmax", "narrowed", "sharpened"]


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
