"""One vector of the words of a sentence, whatever padding is behind them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["max_pool", "mean_pool"]


def max_pool(
    x: Float[Tensor, "batch time dim"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch dim"]:
    r"""The largest of each feature, :math:`\max_t x_t`; zeros of a sentence without words.

    Example:
        >>> max_pool(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([2])).tolist()
        [[3.0]]
    """
    hidden = _padding(x, lengths)
    return x.masked_fill(hidden, -torch.inf).amax(1).masked_fill(hidden.all(1), 0.0)


def mean_pool(
    x: Float[Tensor, "batch time dim"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch dim"]:
    r"""The mean, :math:`\frac{1}{T} \sum_t x_t`; zeros of a sentence without words.

    Example:
        >>> mean_pool(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([2])).tolist()
        [[2.0]]
    """
    total = x.masked_fill(_padding(x, lengths), 0.0).sum(1)
    return total / lengths.clamp_min(1).to(x.device, x.dtype)[:, None]


def _padding(x: Tensor, lengths: Tensor) -> Tensor:
    steps = torch.arange(x.shape[1], device=x.device)
    return (steps >= lengths.to(x.device)[:, None])[..., None]
