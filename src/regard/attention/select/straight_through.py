"""Hard attention that trains by back-propagation: one key forward, the softmax backward."""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention._ops.softmax import masked_softmax
from regard.attention.select.base import OverAllKeys
from regard.attention.select.hard import Choice, Hard

__all__ = ["StraightThrough"]


class StraightThrough(OverAllKeys, nn.Module):
    r"""One key, as `Hard`, with the gradient of the softmax (Bengio et al. 2013, section 4).

    .. math:: w_{ij} = [\, j = s_i \,], \quad s_i \sim \mathrm{softmax}_j(e_{ij}), \quad
              \frac{\partial w_i}{\partial e_i} :=
              \frac{\partial\, \mathrm{softmax}(e_i)}{\partial e_i}

    The gradient is biased, but needs no reward in the loss: hard attention in any model, by the
    setting `model.attention.select: straight-through`. `Hard` has the unbiased estimate.

    Args:
        training, evaluation: "sample" or "argmax", in `train()` and `eval()` mode.
        generator: the random generator; PyTorch's global one by default (`torch.manual_seed`).

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K) of ones and zeros; empty rows are zeros
    """

    sums: ClassVar[str] = "over keys"

    def __init__(
        self,
        training: Choice = "sample",
        evaluation: Choice = "argmax",
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.hard = Hard(training, evaluation, generator=generator)

    def forward(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """The choice as one-hot weights, with the gradient of the softmax."""
        with torch.no_grad():
            chosen, _ = self.hard(scores, mask=mask)
        soft = masked_softmax(scores, mask)
        return chosen.detach() + (soft - soft.detach()), None
