"""The softmax of feature-wise scores."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention._ops.softmax import masked_softmax
from regard.attention.select.base import OverAllKeys
from regard.attention.select.softmax import sharpened
from regard.errors import RequestError

__all__ = ["FeatureSoftmax"]


@dataclass(frozen=True)
class FeatureSoftmax(OverAllKeys):
    r"""A softmax over the keys for each feature: multi-dimensional attention.

    .. math:: w_{ijd} = \frac{\exp(f_{ijd} / \tau)}{\sum_k \exp(f_{ikd} / \tau)}

    Args:
        temperature: :math:`\tau > 0`; small is sharp.

    Shapes:
        scores (*batch, Q, K, D) to weights (*batch, Q, K, D), which sum to 1 over K; a query
        without allowed keys has zeros. The mask (*batch, Q, K) is shared by all features.

    Raises:
        RequestError: for a temperature that is not positive, and for scores that are not
            feature-wise.

    Source: Shen et al. 2018 (DiSAN), section 3.1 ("softmax over positions, not over features").
    """

    temperature: float = 1.0
    sums: ClassVar[str] = "over keys"
    per_feature: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise RequestError(
                f"FeatureSoftmax expected a temperature above 0, got {self.temperature}"
            )

    def __call__(
        self,
        scores: Float[Tensor, "*batch query key feature"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Exponentiate and normalize over the keys."""
        if query is not None and scores.dim() != query.dim() + 1:
            raise RequestError(
                "FeatureSoftmax expected scores (*batch, Q, K, D) with a feature axis, got "
                f"{tuple(scores.shape)}; take a feature-wise score such as FeatureAdditive, or "
                "Softmax"
            )
        weights = masked_softmax(
            sharpened(scores, self.temperature), None if mask is None else mask.unsqueeze(-1), -2
        )
        return weights.to(scores.dtype), None
