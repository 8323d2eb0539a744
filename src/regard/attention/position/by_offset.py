"""Lookup tables over clipped offsets, for relative keys, values and biases."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.mask import offsets

__all__ = ["by_offset"]


def by_offset(
    table: Float[Tensor, "..."],
    clip: int,
    queries: int,
    keys: int,
    at: int | Tensor,
    *,
    per_head: bool,
) -> Float[Tensor, "..."]:
    r"""The table entry of each pair: :math:`t_{\mathrm{clip}(j - p_i,\,-k,\,k)}`.

    Shapes:
        table ([head,] 2k + 1, ...) to ([*batch,] [head,] Q, K, ...); batch axes where `at` has some
    """
    index: Int[Tensor, "*batch q k"] = offsets(queries, keys, at, table.device)
    index = index.clamp(-clip, clip) + clip
    if not per_head:
        return table[index]
    head = torch.arange(table.shape[0], device=table.device)[:, None, None]
    return table[head, index]  # an `at` of (*batch, 1) leaves room for the heads
