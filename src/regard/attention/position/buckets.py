"""Learned biases for ranges of offsets."""

import math

import torch
from torch import Tensor, nn

from regard.attention.constant_tables import ConstantTables
from regard.attention.position.bias import RelativeBias
from regard.errors import RequestError

__all__ = ["BucketBias"]


class BucketBias(ConstantTables, RelativeBias):
    r"""A learned bias for each range of offsets and head (Raffel et al. 2020, T5, section 2.1).

    .. math:: e_{ij} \leftarrow e_{ij} + b_{h,\,B(j - p_i)}

    Near offsets have a bucket each, farther ones share buckets whose width grows as a power, and
    all from `reach` on share the last. With n buckets for one direction and distance d,

    .. math:: B(d) = \begin{cases} d & d < n/2 \\
              \min\big(n - 1,\; n/2 + \lfloor \tfrac{n}{2}\,
              \tfrac{\log(2d/n)}{\log(2\,\mathrm{reach}/n)} \rfloor\big) & \text{else}\end{cases}

    A layer has its own biases here; T5 shares those of its first layer, which one object passed to
    several layers does.

    Args:
        buckets: 32 in T5; with both directions each has half of them.
        reach: the distance from which on all offsets are alike, 128 in T5.
        heads: the number of heads with their own biases; None for scores without a head axis.
        both: whether keys behind the query have buckets of their own, as in an encoder; without, as
            in a decoder, they count as the query's own place.

    Shapes:
        scores (*batch, [head,] Q, K); the weight ([head,] buckets), initialized to zero

    Raises:
        RequestError: for too few buckets, or a reach that they cover one by one.
    """

    index: Tensor

    def __init__(
        self, buckets: int = 32, reach: int = 128, heads: int | None = None, *, both: bool = True
    ) -> None:
        nn.Module.__init__(self)
        least = 4 if both else 2
        if buckets < least or (both and buckets % 2):
            raise RequestError(
                f"BucketBias expected {'an even number of ' if both else ''}buckets of at least "
                f"{least}, got {buckets}"
            )
        if reach <= (buckets // 4 if both else buckets // 2):
            raise RequestError(
                f"BucketBias expected a reach above the {buckets // (4 if both else 2)} distances "
                f"that have a bucket each, got {reach}"
            )
        self.buckets, self.clip, self.both = buckets, reach, both
        self.weight = nn.Parameter(torch.zeros(buckets if heads is None else (heads, buckets)))
        self.register_buffer("index", self.constant("index", torch.empty(0)), persistent=False)

    @property
    def table(self) -> Tensor:  # type: ignore[override]
        """The bias of each offset from -reach to reach: ([head,] 2 reach + 1)."""
        return self.weight[..., self.index]

    @property
    def heads(self) -> int | None:
        """The number of heads with their own biases."""
        return self.weight.shape[0] if self.weight.dim() == 2 else None

    def constant(self, name: str, like: Tensor) -> Tensor:
        """The bucket of each offset."""
        return torch.tensor([self._bucket(j) for j in range(-self.clip, self.clip + 1)])

    def _bucket(self, offset: int) -> int:
        count = self.buckets // 2 if self.both else self.buckets
        first = count if self.both and offset > 0 else 0
        distance = abs(offset) if self.both else max(-offset, 0)
        near = count // 2
        if distance < near:
            return first + distance
        share = math.log(distance / near) / math.log(self.clip / near)
        return first + min(count - 1, near + int(share * (count - near)))

    def extra_repr(self) -> str:
        """Say the settings."""
        heads = "" if self.heads is None else f", heads={self.heads}"
        return f"buckets={self.buckets}, reach={self.clip}{heads}, both={self.both}"
