"""FlexAttention: a softmax of products that functions of the user's have changed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.watching.foreign.fused import Fused
from regard.watching.foreign.products import Products, spread

__all__ = ["flexible", "is_flexible"]


@dataclass(frozen=True)
class Flexible(Products):
    """What FlexAttention was called with.

    Args:
        change: a score, then batch, head, query and key, to another score.
        allows: batch, head, query and key to whether one may look.
    """

    change: Callable[..., Any] | None = None
    allows: Callable[..., Any] | None = None

    def weights(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Rows of the weights; both functions get all pairs at once, as indices that broadcast."""
        exact = torch.promote_types(self.query.dtype, torch.float32)
        query = self.query.to(exact)
        scores = query[..., start:stop, :] @ spread(self.key, self.query).to(exact).mT
        scores = scores * (1.0 if self.scale is None else self.scale)
        places = []
        for axis, size in enumerate(scores.shape):
            shape = [1, 1, 1, 1]
            shape[axis] = size
            place = torch.arange(size, device=scores.device, dtype=torch.int32)
            places.append((place + start if axis == 2 else place).view(shape))
        assert self.change is not None
        assert self.allows is not None
        changed = self.change(scores, *places).expand(scores.shape)
        allowed = torch.as_tensor(self.allows(*places), device=scores.device)
        hidden = ~allowed.expand(scores.shape)
        return torch.softmax(changed.masked_fill(hidden, -torch.inf), -1).nan_to_num_(0.0)


def is_flexible(func: Any) -> bool:
    """Whether an operation of a higher order is FlexAttention."""
    return getattr(func, "__name__", "") == "flex_attention"


def flexible(args: Sequence[Any], result: Any) -> Fused:
    """Met the arguments of the operation, by position."""
    query, key, value, change, blocks, scale, _, *buffers = args
    of_scores, of_mask = (*buffers, (), ())[:2]
    allows = blocks[-1]
    products = Flexible(
        query.detach(),
        key.detach(),
        value.detach(),
        scale=scale,
        change=lambda score, *at: change(score, *at, *of_scores),
        allows=lambda *at: allows(*at, *of_mask),
    )
    return Fused(products, result[0])
