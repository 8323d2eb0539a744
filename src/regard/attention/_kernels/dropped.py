"""Dropped weights by tiles: which ones is drawn again where they are needed again, never stored."""

import torch
from torch import Tensor

__all__ = ["TileDropout"]

BITS = 1 << 16


class TileDropout:
    """One pass over the tiles, in an order that is the same forward and backward.

    Every tile draws its numbers behind the tile before, from a generator that starts with `seed`
    in both passes. The seed comes from PyTorch's own generator, so `torch.manual_seed` reproduces
    all of it. Sixteen bits decide on a weight: the rate is rounded to a multiple of 2^-16.
    """

    def __init__(self, rate: float, seed: int, device: torch.device) -> None:
        self.threshold = min(max(round(rate * BITS), 1), BITS)
        self.generator = torch.Generator(device).manual_seed(seed)

    def factors(self, like: Tensor) -> Tensor:
        """0 for the weights of the next tile that are dropped, 1 / (1 - rate) for the others."""
        count = like.numel()
        words = torch.empty((count + 3) // 4, dtype=torch.int64, device=like.device)
        words.random_(-(2**63), None, generator=self.generator)
        bits = words.view(torch.int16)[:count].view(like.shape)  # uniform over -32768 ... 32767
        if self.threshold == BITS:
            return torch.zeros_like(like)
        kept = (bits >= self.threshold - BITS // 2).to(like.dtype)
        return kept.mul_(1.0 / (1.0 - self.threshold / BITS))
