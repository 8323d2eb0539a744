"""Reverse sequences without moving their padding."""

from typing import Any

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

__all__ = ["reverse"]


def reverse(
    x: Shaped[Tensor, "batch time *dims"], lengths: Int[Tensor, " batch"]
) -> Shaped[Tensor, "batch time *dims"]:
    r"""Reverse the first `lengths` items of each row; the rest stays in place.

    .. math:: y_j = x_{n-1-j} \text{ for } j < n, \quad y_j = x_j \text{ else}

    Reversing whole rows would move the padding to the front (Sutskever et al. 2014 reverse
    sentences, not rows). Applied twice, it is the identity.

    Example:
        >>> reverse(torch.tensor([[5, 6, 7, 0]]), torch.tensor([3]))
        tensor([[7, 6, 5, 0]])
    """
    position = torch.arange(x.shape[1], device=x.device)
    mirrored = lengths.to(x.device)[:, None] - 1 - position  # (batch, time)
    index = torch.where(mirrored >= 0, mirrored, position)
    rows = torch.arange(x.shape[0], device=x.device)[:, None]
    turned: Tensor = _Turn.apply(x, (rows * x.shape[1] + index).flatten())  # type: ignore[no-untyped-call]
    return turned


class _Turn(torch.autograd.Function):
    """Permute rows by an involution, so the gradient uses the same permutation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        return x.flatten(0, 1).index_select(0, index).view(x.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return _Turn.apply(grads[0], index), None  # type: ignore[no-untyped-call]
