"""Dropout of weights by tiles: the mask is drawn again in the backward pass, never stored."""

import torch
from torch import Tensor

__all__ = ["TileDropout"]

BITS = 1 << 16


class TileDropout:
    """Dropout for one pass over the tiles, in the same order forward and backward.

    The tiles draw from one generator in order, with the same `seed` in both passes. The seed comes
    from PyTorch's global generator, so `torch.manual_seed` makes results reproducible. Each weight
    uses sixteen bits, so the rate is rounded to a multiple of 2^-16.
    """

    def __init__(self, rate: float, seed: int, device: torch.device) -> None:
        self.threshold = min(max(round(rate * BITS), 1), BITS)
        self.generator = torch.Generator(device).manual_seed(seed)

    def factors(self, like: Tensor) -> Tensor:
        """The factors of the next tile: 0 for dropped weights, 1 / (1 - rate) for others."""
        count = like.numel()
        words = torch.empty((count + 3) // 4, dtype=torch.int64, device=like.device)
        words.random_(-(2**63), None, generator=self.generator)
        bits = words.view(torch.int16)[:count].view(like.shape)  # uniform over -32768 ... 32767
        if self.threshold == BITS:
            return torch.zeros_like(like)
        kept = (bits >= self.threshold - BITS // 2).to(like.dtype)
        return kept.mul_(1.0 / (1.0 - self.threshold / BITS))
