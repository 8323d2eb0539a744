"""What experiments share: training on made data, and one value for each seed."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.optim.optimizers import adam

__all__ = ["fit", "over_seeds", "points"]


def fit(
    model: nn.Module,
    loss: Callable[[torch.Generator], Tensor],
    *,
    updates: int,
    lr: float,
    seed: int = 1,
    clip: float | None = 1.0,
    warmup: int = 0,
) -> list[float]:
    """Train with Adam on made data.

    Args:
        loss: draws a batch from the generator, and gives the loss of the model on it.
        clip: the largest norm of the gradient, or None.
        warmup: updates until the rate has risen from 0 to `lr`.

    Returns:
        The loss of each update. The model is in evaluation mode then.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = adam(model.parameters(), lr=lr)
    losses = []
    model.train()
    for update in range(updates):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (update + 1) / max(warmup, 1))
        value = loss(generator)
        optimizer.zero_grad()
        value.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(value.item())
    model.eval()
    return losses


def over_seeds(
    one: Callable[[int], dict[str, float]], seeds: Sequence[int]
) -> dict[str, list[float]]:
    """Run an experiment once for each seed; the values of each name in the order of the seeds."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        torch.manual_seed(seed)
        for name, value in one(seed).items():
            found.setdefault(name, []).append(value)
    return found


def points(found: dict[str, list[float]], names: dict[str, Any]) -> list[tuple[float, float]]:
    """The points of a line: for each name its x, and a y for each seed."""
    return [(x, y) for name, x in names.items() for y in found[name]]
