"""A moving average lowers the variance of the sampled gradient of hard attention (C10)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention import Dot, Gather, Hard, attend
from regard.claims.claim import Measured
from regard.claims.experiments.fitting import over_seeds
from regard.views.charts import Chart

__all__ = ["moving_average"]

KEYS, DRAWS = 8, 1000


def moving_average(seeds: Sequence[int]) -> Measured:
    """REINFORCE for one choice among eight, 1,000 draws, with Xu's moving average and without.

    Rewards are log-likelihoods, as in the paper: all are below zero, and differ by the choice.
    """
    bars: dict[str, list[float]] = {"no baseline": [], "moving average": []}

    def one(seed: int) -> dict[str, float]:
        draw = torch.Generator().manual_seed(seed)
        reward_of = -3 + torch.randn(KEYS, 1, generator=draw)
        # Queries that meet one-hot keys are the scores, so their gradient is that of the scores.
        scores = torch.randn(1, KEYS, generator=draw).repeat(DRAWS, 1, 1).requires_grad_()
        select = Hard(generator=draw)
        sampled = attend(
            scores, torch.eye(KEYS), reward_of, score=Dot(), select=select, read=Gather()
        )
        reward, log_prob = sampled.context[:, 0, 0].detach(), sampled.log_prob
        assert log_prob is not None
        (direction,) = torch.autograd.grad(log_prob.sum(), scores)  # of log p(choice), each draw
        plain = reward[:, None] * direction[:, 0]
        centered = (reward - average(reward))[:, None] * direction[:, 0]
        ratios = bootstrapped(plain[DRAWS // 2 :], centered[DRAWS // 2 :], draw)
        bars["no baseline"].append(float(spread(plain)))
        bars["moving average"].append(float(spread(centered)))
        gap = (plain - centered).mean(0).norm() / plain.mean(0).norm()
        return {
            "ratio": float(ratios.median()),
            "upper end of the ratio": float(ratios.quantile(0.975)),
            "change of the mean gradient": float(gap),
        }

    values = over_seeds(one, seeds)
    return Measured(values, [Chart("variance of the gradient of one draw", bars=bars)])


def average(reward: Tensor) -> Tensor:
    """b_k = 0.9 b_(k-1) + 0.1 r_k (Xu et al. 2015, 4.1), as it was before draw k."""
    kept, b = [], torch.zeros(())
    for one in reward:
        kept.append(b)
        b = 0.9 * b + 0.1 * one
    return torch.stack(kept)


def spread(gradients: Tensor) -> Tensor:
    """Total variance (…) of gradients (…, draws, keys)."""
    return gradients.var(-2).sum(-1)


def bootstrapped(plain: Tensor, centered: Tensor, draw: torch.Generator) -> Tensor:
    """Ratios of the variances over 1,000 resamples, once the average has settled."""
    index = torch.randint(len(plain), (1000, len(plain)), generator=draw)
    return spread(centered[index]) / spread(plain[index])
