"""Variants of the softmax: sharper, smoother, identity, and over the query axis."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention._ops.softmax import masked_log_softmax, masked_softmax
from regard.attention.select.base import OverAllKeys, Select, is_over_all_keys
from regard.attention.select.softmax import Softmax
from regard.errors import RequestError

__all__ = ["Identity", "OverQueries", "Sharpen", "Smooth"]


@dataclass(frozen=True, init=False)
class Sharpen(Softmax):
    r"""Softmax with an inverse temperature (Chorowski et al. 2015, section 2.3), for long inputs.

    .. math:: w_{ij} = \frac{\exp(\beta\, e_{ij})}{\sum_k \exp(\beta\, e_{ik})}

    Their alternative, only the k best keys, is `TopK`.

    Args:
        beta: :math:`\beta > 0`; above 1 it sharpens.

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K): rows sum to 1, empty rows are zeros
    """

    beta: float = 2.0

    def __init__(self, beta: float = 2.0) -> None:
        if not beta > 0:
            raise RequestError(f"Sharpen expected a beta above 0, got {beta}")
        object.__setattr__(self, "beta", beta)
        object.__setattr__(self, "temperature", 1 / beta)

    def __repr__(self) -> str:
        """Show beta, not the temperature derived from it."""
        return f"Sharpen(beta={self.beta})"


@dataclass(frozen=True)
class Smooth(OverAllKeys):
    r"""The sigmoid instead of the exponential (Chorowski et al. 2015, section 2.3).

    .. math:: w_{ij} = \frac{\sigma(e_{ij})}{\sum_k \sigma(e_{ik})}
                     = \mathrm{softmax}_j\big(\log \sigma(e_{ij})\big)

    No single key can dominate: all positive scores count about the same. The second form cannot
    underflow.

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K): rows sum to 1, empty rows are zeros
    """

    sums: ClassVar[str] = "over keys"

    def __call__(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Squash and normalize."""
        return masked_softmax(F.logsigmoid(scores), mask), None

    def log_weights(
        self, scores: Float[Tensor, "..."], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "..."]:
        """Log-weights, for reads in log space."""
        return masked_log_softmax(F.logsigmoid(scores), mask)


@dataclass(frozen=True)
class Identity(OverAllKeys):
    r"""The scores themselves: :math:`w_{ij} = e_{ij}`, zero for masked keys.

    Used for linear attention without a feature map, for ABCNN's matching matrix, and for the linear
    start of a memory network (Sukhbaatar et al. 2015, section 4.4).

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K) with arbitrary sums
    """

    sums: ClassVar[str] = "free"

    def __call__(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Apply the mask only."""
        return (scores if mask is None else scores.masked_fill(~mask, 0.0)), None


@dataclass(frozen=True)
class OverQueries(OverAllKeys):
    r"""Any select over the query axis: for each key, the weights of the queries sum to 1.

    .. math:: w_{\cdot j} = \mathrm{select}_i(e_{ij})

    The column-wise half of attention-over-attention (Cui et al. 2017, eq. 2) and of every two-way
    attention that normalizes one affinity matrix along both axes.

    Args:
        select: the select over that axis; softmax by default.

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K): columns sum to 1 (for a select over
        keys), fully masked columns are zeros

    Raises:
        RequestError: for a select that chooses one key per query, or has a window.
    """

    select: Select = field(default_factory=Softmax)
    sums: ClassVar[str] = "over queries"

    def __post_init__(self) -> None:
        if not is_over_all_keys(self.select):
            raise RequestError(
                f"OverQueries expected a selection that gives weights over one axis, such as "
                f"Softmax or Sparsemax, got {type(self.select).__name__}, which is made for one "
                "query at a time"
            )

    def __call__(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Apply the select with exchanged axes."""
        if mask is not None:
            mask = torch.broadcast_to(mask, scores.shape).transpose(-2, -1)
        weights, _ = self.select(scores.transpose(-2, -1), mask=mask)
        return weights.transpose(-2, -1), None
