"""Softmax with a mask, in the dtype that keeps it exact."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

__all__ = ["masked_log_softmax", "masked_softmax"]


def masked_softmax(
    scores: Float[Tensor, "..."], mask: Bool[Tensor, "..."] | None = None, dim: int = -1
) -> Float[Tensor, "..."]:
    """Softmax over the allowed keys; zeros elsewhere, and in empty rows.

    Masked scores become the lowest *finite* number, not minus infinity. So the softmax of an empty
    row (which is then set to zero) and its gradients are finite: nothing is ever NaN.
    """
    if mask is None:
        return torch.softmax(scores, dim)
    hidden = ~mask
    weights = torch.softmax(scores.masked_fill(hidden, torch.finfo(scores.dtype).min), dim)
    return weights.masked_fill(hidden, 0.0)


def masked_log_softmax(
    scores: Float[Tensor, "..."], mask: Bool[Tensor, "..."] | None = None, dim: int = -1
) -> Float[Tensor, "..."]:
    """The logarithm of `masked_softmax`: minus infinity, without gradient, where it is zero."""
    if mask is None:
        return torch.log_softmax(scores, dim)
    hidden = ~mask
    logs = torch.log_softmax(scores.masked_fill(hidden, torch.finfo(scores.dtype).min), dim)
    return logs.masked_fill(hidden, -torch.inf)
