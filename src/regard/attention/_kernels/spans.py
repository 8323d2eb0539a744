"""Masks as spans: for each query a range of keys."""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention._kernels.region import WINDOWS, factors
from regard.attention.mask import Directional, Lengths, Mask, Window
from regard.attention.plain import exactly

__all__ = ["Spans", "spans"]


class Spans(NamedTuple):
    """Keys start..stop - 1 of each query, and the rest of the mask.

    Shapes:
        start, stop (*batch, Q), int32, or what broadcasts to it; None: no limit on that side. They
        may lie outside 0..K, and start above stop.
    """

    start: Tensor | None
    stop: Tensor | None
    rest: Mask | None


def spans(mask: Mask | None, queries: int, at: int | Tensor, device: torch.device) -> Spans:
    """Split a conjunction of masks into spans and other masks."""
    starts: list[Tensor] = []
    stops: list[Tensor] = []
    rest: Mask | None = None
    position = torch.arange(queries, dtype=torch.int32, device=device)
    if isinstance(at, Tensor):
        position = position + at.to(device, torch.int32).unsqueeze(-1)  # (*batch, Q)
    else:
        position = position + at
    for factor in factors(mask):
        if not exactly(factor, *WINDOWS, Directional, Lengths):
            rest = factor if rest is None else rest & factor
        elif isinstance(factor, Lengths):
            stops.append(factor.lengths.to(device, torch.int32).unsqueeze(-1))
        elif isinstance(factor, Directional):
            if factor.direction == "forward":
                stops.append(position)
            else:
                starts.append(position + 1)
        elif isinstance(factor, Window):
            if factor.left is not None:
                starts.append(position - factor.left)
            if factor.right is not None:
                stops.append(position + (factor.right + 1))
    start, stop = None, None
    for other in starts:
        start = other if start is None else torch.maximum(start, other)
    for other in stops:
        stop = other if stop is None else torch.minimum(stop, other)
    return Spans(start, stop, rest)
