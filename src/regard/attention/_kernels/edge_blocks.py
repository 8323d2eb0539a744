"""Blocks of edges, whose rows are gathered at once."""

import torch
from torch import Tensor

__all__ = ["blocks"]

BLOCK = 1 << 18  # numbers gathered at once: 1 MiB in fp32


def blocks(x: Tensor, edges: int) -> list[slice]:
    """Blocks of edges small enough to gather rows of x (B, N, D)."""
    if torch.compiler.is_exporting():  # a graph is for any number of rows
        return [slice(0, edges)]
    width = max(1, BLOCK // max(1, x.shape[0] * x.shape[2]))
    return [slice(e, e + width) for e in range(0, edges, width)]
