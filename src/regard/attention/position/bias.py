"""Learned biases for offsets."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.position.by_offset import by_offset

__all__ = ["RelativeBias"]


class RelativeBias(nn.Module):
    r"""A learned bias for each clipped offset and head, added to the score.

    .. math:: e_{ij} \leftarrow e_{ij} + b_{h,\,\mathrm{clip}(j - p_i,\,-k,\,k)}

    Offsets are key minus query, as in Shaw et al. (2018). With buckets, as in T5: `BucketBias`.

    Args:
        clip: k, the largest distance with its own bias.
        heads: the number of heads with their own biases; None for scores without a head axis.

    Shapes:
        scores (*batch, [head,] Q, K); the table ([head,] 2k + 1), initialized to zero
    """

    def __init__(self, clip: int, heads: int | None = None) -> None:
        super().__init__()
        self.clip = clip
        size = (2 * clip + 1,) if heads is None else (heads, 2 * clip + 1)
        self.table = nn.Parameter(torch.zeros(size))

    @property
    def heads(self) -> int | None:
        """The number of heads with their own biases."""
        return self.table.shape[0] if self.table.dim() == 2 else None

    def before(self, query: Tensor, key: Tensor, *, at: int | Tensor = 0) -> tuple[Tensor, Tensor]:
        """Return queries and keys unchanged."""
        return query, key

    def bias(
        self, scores: Float[Tensor, "*batch q k"], query: Tensor, *, at: int | Tensor = 0
    ) -> Float[Tensor, "*batch q k"]:
        """Add the bias of each pair's offset."""
        queries, keys = scores.shape[-2:]
        per_head = self.table.dim() == 2
        return scores + by_offset(self.table, self.clip, queries, keys, at, per_head=per_head)

    def extra_repr(self) -> str:
        """Say the clip, and the heads where there are some."""
        return f"clip={self.clip}" + (
            f", heads={self.table.shape[0]}" if self.table.dim() == 2 else ""
        )
