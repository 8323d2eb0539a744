"""Gradients clipped and disturbed."""

import math

import torch

from regard.optim.optimizers import Parameters
from regard.train.sharding import local

__all__ = ["add_noise", "clip_each"]


def clip_each(parameters: Parameters, limit: float) -> None:
    """Clip the gradient norm of each parameter to `limit`; 0: no clipping."""
    if limit:
        for parameter in parameters:
            torch.nn.utils.clip_grad_norm_(parameter, limit)


def add_noise(parameters: Parameters, scale: float, step: int, seed: int) -> None:
    r"""Add noise to every gradient; 0: none.

    .. math:: g \leftarrow g + \epsilon, \quad \epsilon \sim N(0, \sigma^2) \text{ within } 2\sigma,
              \quad \sigma = scale / \sqrt{1 + t}

    The numbers follow from (seed, step) alone, so they are the same in every process, and after an
    interruption. Source: Neelakantan et al. (2015), "Adding Gradient Noise Improves Learning for
    Very Deep Networks", with the exponent of the program of Verga et al. (2018).

    Args:
        step: t, how many updates were made before.
    """
    if not scale:
        return
    deviation = scale / math.sqrt(1 + step)
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    for parameter in parameters:
        if parameter.grad is not None:
            own = local(parameter.grad)
            noise = torch.empty(own.shape, dtype=torch.float32)
            torch.nn.init.trunc_normal_(
                noise, 0.0, deviation, -2 * deviation, 2 * deviation, generator=generator
            )
            own.add_(noise.to(own))
