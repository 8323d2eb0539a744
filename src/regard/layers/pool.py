"""One vector of the words of a sentence, whatever padding is behind them."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["max_pool", "mean_pool", "real"]


def real(lengths: Int[Tensor, " batch"], x: Tensor) -> Bool[Tensor, "batch time"]:
    """Where the rows of x (B, T, …) are no padding.

    Example:
        >>> real(torch.tensor([1, 2]), torch.zeros(2, 2, 5)).tolist()
        [[True, False], [True, True]]
    """
    return torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]


def max_pool(
    x: Float[Tensor, "batch time dim"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch dim"]:
    r"""The largest of each feature, :math:`\max_t x_t`; zeros of a sentence without words.

    Example:
        >>> max_pool(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([2])).tolist()
        [[3.0]]
    """
    hidden = ~real(lengths, x)[..., None]
    return x.masked_fill(hidden, -torch.inf).amax(1).masked_fill(hidden.all(1), 0.0)


def mean_pool(
    x: Float[Tensor, "batch time dim"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch dim"]:
    r"""The mean, :math:`\frac{1}{T} \sum_t x_t`; zeros of a sentence without words.

    Example:
        >>> mean_pool(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([2])).tolist()
        [[2.0]]
    """
    total = x.masked_fill(~real(lengths, x)[..., None], 0.0).sum(1)
    return total / lengths.clamp_min(1).to(x.device, x.dtype)[:, None]
