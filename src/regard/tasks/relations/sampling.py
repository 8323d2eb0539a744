"""Which pairs without a relation a training sees."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

__all__ = ["SAMPLINGS"]


def _sides(true: Tensor) -> Tensor:
    """All true pairs or all others, with equal probability; what there is where one lacks."""
    wanted = bool(torch.rand(()) < 0.5)
    chosen = true if wanted else ~true
    chosen = chosen if chosen.any() else ~chosen
    return chosen.float() / chosen.sum()


def _balanced(true: Tensor) -> Tensor:
    """True pairs weigh as much as all others together: what `sides` is in the mean."""
    share = true.float().mean()
    return torch.where(true, 0.5 / share, 0.5 / (1 - share)) / len(true)


def _all(true: Tensor) -> Tensor:
    """Every pair weighs the same."""
    return torch.full(true.shape, 1 / max(len(true), 1), device=true.device)


SAMPLINGS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "sides": _sides,
    "balanced": lambda true: _balanced(true) if true.any() and not true.all() else _all(true),
    "all": _all,
}
"""How the pairs of a batch weigh in the loss: from which of them are true (P,) to weights (P,)."""
