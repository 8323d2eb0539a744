r"""Add table entries per offset to pairs, and sum pairs per offset, with strided views.

In row i of a tile, column x has the offset :math:`o_{ix} = x - i + o_{00}`, one less than in row
i - 1. So the table, with its two clipped ends, is written out once per row, and a view whose row
stride is one less aligns it with the scores. Columns that are clipped in every row need only one
number per row.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["add_by_offset", "sum_by_offset"]


def add_by_offset(scores: Tensor, table: Tensor, first: int, exact: bool = False) -> None:
    """Add to each pair the entry of its clipped offset, in place, up to a constant per row.

    A softmax (or its gradient) follows, which is invariant to a constant per row. This saves the
    pass over the columns at one of the ends.

    Args:
        first: the offset of the first row and column.
        exact: also add the constant.

    Shapes:
        scores (..., c, n), table (..., c or 1, 2k + 1); leading axes broadcast
    """
    rows, columns = scores.shape[-2:]
    clip = table.shape[-1] // 2
    left, right = _ends(rows, columns, clip, first)
    if left or right < columns:
        pivot = table[..., :1] if left > columns - right else table[..., -1:]
        table = table - pivot
        if exact:
            scores += pivot
        if left > columns - right:
            if right < columns:
                scores[..., right:] += table[..., -1:]
        elif left:
            scores[..., :left] += table[..., :1]
    if left == right:
        return
    low = left + first - (rows - 1)  # the offset of the last row in the first of these columns
    offsets = torch.arange(low, right + first, device=table.device).clamp_(-clip, clip)
    spread = table.index_select(-1, offsets.add_(clip))
    spread = spread.expand(*spread.shape[:-2], rows, -1).contiguous()
    width = spread.shape[-1]
    skewed = spread.as_strided(
        (*spread.shape[:-1], right - left), (*spread.stride()[:-2], width - 1, 1), rows - 1
    )
    scores[..., left:right] += skewed


def sum_by_offset(weights: Tensor, clip: int, first: int) -> Tensor:
    """Sum the pairs of each clipped offset.

    Shapes:
        weights (..., c, n) to (..., c, 2k + 1)
    """
    rows, columns = weights.shape[-2:]
    left, right = _ends(rows, columns, clip, first)
    if left == right:
        sums = weights.new_zeros(*weights.shape[:-1], 2 * clip + 1)
    else:
        # Row i has the offsets -k … k in the columns i … i + 2k of this.
        before = left + clip + first
        middle = F.pad(weights[..., left:right], (before, rows + clip - right - first))
        width = middle.shape[-1]
        sums = middle.as_strided(
            (*middle.shape[:-1], 2 * clip + 1), (*middle.stride()[:-2], width + 1, 1)
        ).clone()
        if rows > 1:
            sums[..., 0] += middle.tril(-1).sum(-1)
            sums[..., -1] += middle.triu(2 * clip + 1).sum(-1)
    if left:
        sums[..., 0] += weights[..., :left].sum(-1)
    if right < columns:
        sums[..., -1] += weights[..., right:].sum(-1)
    return sums


def _ends(rows: int, columns: int, clip: int, first: int) -> tuple[int, int]:
    """Columns before the first are clipped left in every row; from the second on, clipped right."""
    left = min(max(1 - clip - first, 0), columns)
    right = min(max(clip - first + rows - 1, left), columns)
    return left, right
