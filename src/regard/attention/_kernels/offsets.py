r"""Numbers per offset, spread over pairs and gathered back, by strided views and not by indices.

Row i of a tile meets its keys at the offsets :math:`o_{ix} = x - i + o_{00}`, which all rows walk
one after another. So a table that is written out once a row, the two clipped ends included, lies
under the scores when each row starts one place further: a view with the row stride one less.
Columns in which every row is clipped need no table but one number a row.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["add_by_offset", "sum_by_offset"]


def add_by_offset(scores: Tensor, table: Tensor, first: int, exact: bool = False) -> None:
    """Add to each pair the number of its clipped offset, in place, up to a constant for each row.

    What follows is a softmax (or its gradient), which no constant of a row changes; that spares
    the pass over the columns at one of the ends.

    Args:
        first: the offset of the first row and column.
        exact: add the constant too.

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
    """Add up what the pairs of each clipped offset have.

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
    """Columns before the first are clipped at the left in every row, from the second at right."""
    left = min(max(1 - clip - first, 0), columns)
    right = min(max(clip - first + rows - 1, left), columns)
    return left, right
