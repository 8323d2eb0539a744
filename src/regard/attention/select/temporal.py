"""The softmax of a whole target at once, each step lowered where earlier ones scored high."""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention._ops.softmax import masked_softmax
from regard.attention.select.base import OverAllKeys

__all__ = ["TemporalSoftmax"]


class TemporalSoftmax(OverAllKeys):
    r"""The weights of `carry=IntraTemporal()` where all steps are known (Paulus et al. 2018).

    .. math:: w_t = \mathrm{softmax}_j\big(e_{tj} - \mathrm{logsumexp}_{\tau < t}\, e_{\tau j}\big),
              \qquad w_1 = \mathrm{softmax}_j(e_{1j})

    The queries of one call are successive steps (a whole target, teacher forced). With the carry
    they are the hypotheses of one step. Only earlier steps count, so padding after a target's end
    changes nothing.

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K): rows sum to 1, empty rows are zeros

    Source: section 2.1, eq. 2-4.

    Example:
        >>> scores = torch.tensor([[3.0, 0.0, 0.0], [3.0, 0.0, 0.0]]).double()
        >>> TemporalSoftmax()(scores)[0].numpy().round(3).tolist()
        [[0.909, 0.045, 0.045], [0.333, 0.333, 0.333]]
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
        """Subtract what earlier steps scored, exponentiate and normalize."""
        return masked_softmax(lowered(scores), mask).to(scores.dtype), None


def lowered(scores: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
    """Scores less the logarithm of the sum of what earlier queries gave the same key."""
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    before = wide[..., :-1, :].logcumsumexp(-2)
    return torch.cat([wide[..., :1, :], wide[..., 1:, :] - before], -2)
