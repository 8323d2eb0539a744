"""An overview of what is too large to be kept: of each cell of 16 × 16 weights, say, the largest.

Of the pyramid of halvings only the level that fits is kept: every coarser one is the largest of its
cells again, and finer ones are computed on demand where the page is served live.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError
from regard.viewer.head_measures import measures
from regard.views import Map, View

__all__ = ["CELLS", "overview", "pooled", "wants_overview"]

Floats = NDArray[np.float32]

CELLS = 256
"""Of an overview, each way, at most."""
HEAD, WHOLE = 1 << 22, 1 << 26
"""A head, and a view of weights that are computed on demand, are kept whole up to this many."""
_BLOCK = 1 << 20
"""Weights that are held at once."""


def wants_overview(view: View, one: Map) -> bool:
    """Whether a map is too large for its weights to be kept."""
    if one.pool != (1, 1) or one.kind == "edges":  # edges are kept sparse
        return False
    size = one.shape[1] * one.shape[2]
    every = sum(m.shape[0] * m.shape[1] * m.shape[2] for m in view.maps if m.tile is not None)
    return size > HEAD or (one.tile is not None and every > WHOLE and max(one.shape[1:]) > CELLS)


def overview(view: View, one: Map) -> tuple[Map, dict[str, list[float]]]:
    """The map in cells, and what its heads do; no more than some rows are ever held.

    Raises:
        RequestError: weights that are no numbers.
    """
    heads, rows, columns = one.shape
    side = max(rows, columns)
    f = 1 << max((side - 1) // CELLS, 0).bit_length()
    cells = np.zeros((heads, -(-rows // f), -(-columns // f)), np.float32)
    step = max(_BLOCK // max(heads * columns, 1) // f, 1) * f

    def blocks() -> Iterator[tuple[int, Floats]]:
        for start in range(0, rows, step):
            some = slice(start, min(start + step, rows))
            block = np.stack([one.part(h, some, slice(0, columns)) for h in range(heads)])
            if not np.isfinite(block).all():
                raise RequestError(f"{one.name}: weights to be kept must be finite numbers")
            if (block < 0).any():
                raise RequestError(f"{one.name}: only an overview of sizes for a map this large")
            cells[:, start // f : -(-some.stop // f)] = pooled(block, f)
            yield start, block

    own = one.rows == one.columns
    delimiters = view.axes[one.columns].delimiters
    found = measures(blocks(), (rows, columns), delimiters, one.links, own)
    return replace(one, load=cells.__getitem__, tile=None, pool=(f, f)), found


def pooled(weights: Floats, f: int) -> Floats:
    """The largest of each f × f cells; those at the edges may be smaller.

    Shapes:
        weights (..., R, C)
    """
    for axis in (-2, -1):
        starts = np.arange(0, weights.shape[axis], f)
        if f > 1 and len(starts):
            weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights
