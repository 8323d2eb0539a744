"""Hard attention: one chosen key."""

from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention._ops.softmax import masked_log_softmax
from regard.attention.select.base import OverAllKeys
from regard.attention.select.softmax import narrowed, sharpened
from regard.errors import RequestError

__all__ = ["Hard"]

Choice = Literal["sample", "argmax"]


class Hard(OverAllKeys, nn.Module):
    r"""One key (Xu et al. 2015, section 4.1): sampled in training, the best in evaluation.

    .. math:: s_i \sim \mathrm{Multinoulli}\big(\mathrm{softmax}_j(e_{ij} / \tau)\big), \quad
              w_{ij} = [\, j = s_i \,]

    The weights are one-hot and have no gradient; `Attended.log_prob` is
    :math:`\log p(s_i)` and has one, so that REINFORCE is one line:
    `loss = -((reward - baseline) * attended.log_prob).sum()`. `Gather` reads them in O(d).

    Args:
        training, evaluation: "sample" or "argmax", in `train()` and `eval()` mode.
        temperature: :math:`\tau > 0` of the distribution.
        generator: the random generator; PyTorch's global one by default (`torch.manual_seed`).

    Shapes:
        scores (*batch, Q, K) to weights (*batch, Q, K) of ones and zeros and log_prob (*batch, Q);
        an empty row has no choice: zeros, with log-probability 0
    """

    sums: ClassVar[str] = "over keys"
    one_hot: ClassVar[bool] = True

    def __init__(
        self,
        training: Choice = "sample",
        evaluation: Choice = "argmax",
        *,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        for name, choice in (("training", training), ("evaluation", evaluation)):
            if choice not in ("sample", "argmax"):
                raise RequestError(f'Hard expected {name}="sample" or "argmax", got {choice!r}')
        if not temperature > 0:
            raise RequestError(f"Hard expected a temperature above 0, got {temperature}")
        self.choices: tuple[Choice, Choice] = (training, evaluation)
        self.temperature, self.generator = temperature, generator

    def forward(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """The choice as one-hot weights, and its log-probability."""
        if scores.shape[-1] == 0:  # no key to choose
            return scores.detach(), scores.sum(-1)
        logs = masked_log_softmax(sharpened(scores, self.temperature), mask)
        logs = narrowed(logs, scores.dtype)
        chances = logs.detach()
        if self.choices[0 if self.training else 1] == "sample":
            # The first of exponential clocks with these rates to ring is a sample of them.
            chances = chances.to(torch.promote_types(chances.dtype, torch.float32))
            clock = torch.empty_like(chances).exponential_(generator=self.generator)
            chances = chances - clock.clamp_min_(torch.finfo(clock.dtype).tiny).log_()
        chosen = chances.argmax(-1, keepdim=True)  # (*batch, Q, 1)
        log_prob = logs.gather(-1, chosen)
        nothing = log_prob == -torch.inf
        one = torch.ones_like(logs[..., :1]).masked_fill(nothing, 0.0).detach()
        weights = torch.zeros_like(logs).scatter(-1, chosen, one)
        return weights, log_prob.masked_fill(nothing, 0.0).squeeze(-1)

    def extra_repr(self) -> str:
        """Say both choices."""
        training, evaluation = self.choices
        return f"training={training!r}, evaluation={evaluation!r}, temperature={self.temperature}"
