r"""REINFORCE for models that sample where they look (Williams 1992; Mnih et al. 2014, section 3.1).

    J = E[R],   ∇J ≈ Σ_t ∇ log π(l_t) (R - b_t),   b_t by squared error from R

R is 1 where the answer is right, else 0, and comes at the end.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

__all__ = ["LOG_PROBS", "reinforce", "reinforced"]

LOG_PROBS, BASELINES = "log_probs", "baselines"
"""The names in `Output.extra` of what the loss needs."""


def reinforce(
    log_probs: Float[Tensor, "batch steps"],
    baselines: Float[Tensor, "batch steps"],
    reward: Float[Tensor, " batch"],
) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
    r"""The losses of the policy and of the baseline, summed over the steps.

    .. math:: -\sum_t \log\pi(l_t)\,(R - b_t), \qquad \sum_t (b_t - R)^2

    In the first the baseline is a constant: only the policy learns from it.

    Example:
        >>> each = torch.log(torch.tensor([[0.5, 0.5]])), torch.tensor([[0.25, 1.0]])
        >>> reinforce(*each, torch.ones(1))
        (tensor([0.5199]), tensor([0.5625]))
    """
    gain = reward[:, None] - baselines
    policy = -(log_probs * gain.detach()).sum(1)
    return policy, (gain**2).sum(1)


def reinforced(
    extra: Mapping[str, Tensor], right: Bool[Tensor, " batch"], weight: float
) -> Tensor | None:
    """What REINFORCE adds to the loss of each example; None where the model samples nothing.

    Args:
        extra: of the output.
        right: whether the answer is.
        weight: of the policy's part; that of the baseline counts 1.
    """
    if LOG_PROBS not in extra:
        return None
    log_probs, baselines = extra[LOG_PROBS].float(), extra[BASELINES].float()
    policy, squares = reinforce(log_probs, baselines, right.to(torch.float32))
    return weight * policy + squares
