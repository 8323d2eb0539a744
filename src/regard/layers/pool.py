"""One vector of the words of a sentence, whatever padding is behind them."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

__all__ = ["max_pool", "max_shares", "mean_pool", "real", "spread"]


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


def max_shares(
    x: Float[Tensor, "batch time dim"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch time"]:
    """Of each position the share of the features whose largest value stands there.

    The shares of a sentence add up to 1. The first of equal values counts. A sentence without words
    has zeros.

    Example:
        >>> x = torch.tensor([[[1.0, 5.0], [3.0, 2.0], [9.0, 9.0]]])
        >>> max_shares(x, torch.tensor([2])).tolist()
        [[0.5, 0.5, 0.0]]
    """
    there = real(lengths, x)
    where = x.masked_fill(~there[..., None], -torch.inf).argmax(1)
    counts = nn.functional.one_hot(where, x.shape[1]).sum(1)
    return counts.masked_fill(~there, 0) / x.shape[2]


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


def spread(
    shares: Float[Tensor, "batch windows"], size: Int[Tensor, " batch"], time: int
) -> Float[Tensor, "batch time"]:
    """Divide the share of each window among its words.

    Args:
        shares: of the windows that begin at each position.
        size: words of a window, 1 or more, by sentence.
        time: positions of the result.

    Example:
        >>> spread(torch.tensor([[0.5, 0.5]]), torch.tensor([2]), 3).tolist()
        [[0.25, 0.5, 0.25]]
    """
    size = size.to(shares.device)[:, None]
    places = torch.arange(time, device=shares.device)
    sums = nn.functional.pad(shares.cumsum(1), (1, 0))  # of the windows before each position
    last = (places + 1).clamp(max=shares.shape[1]).expand(len(shares), -1)
    first = (places - size + 1).clamp(0, shares.shape[1])
    return (sums.gather(1, last) - sums.gather(1, first)) / size
