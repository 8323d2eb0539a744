"""What the arrays of a graph must be, so that nothing reads beyond them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError

__all__ = ["CLASSES", "FEATURES", "check_features", "whole"]

CLASSES = 100_000
"""A graph has no more classes than that."""
FEATURES = 10_000_000


def whole(array: NDArray[Any], name: str) -> NDArray[np.int64]:
    """An array of whole numbers, as int64.

    Raises:
        RequestError: it has others, or none.

    Example:
        >>> whole(np.array([1.0, 2.0]), "y")
        array([1, 2])
    """
    if array.dtype.kind in "iub" and array.dtype != np.uint64:
        return array.astype(np.int64)
    if array.dtype.kind not in "fu":
        raise RequestError(f"expected whole numbers in {name}, got {array.dtype}")
    wrong = ~(np.isfinite(array) & (np.abs(array) < 2**53) & (array == np.floor(array)))
    if wrong.any():
        raise RequestError(f"expected whole numbers in {name}, got {array[wrong][0]}")
    return array.astype(np.int64)


def check_features(features: Any) -> None:
    """Refuse nonzeros outside of their matrix, and features that are no numbers.

    Arrays that are mapped from files are not read for it.

    Raises:
        RequestError: with the node.
    """
    nodes, width = features.shape
    if not 0 <= width <= FEATURES:
        raise RequestError(f"a graph expected 0 to {FEATURES:,} features of a node, got {width:,}")
    if isinstance(features, np.memmap):
        return
    if isinstance(features, np.ndarray):
        wrong = ~np.isfinite(features).all(1)
        row, value = np.arange(nodes), features
    else:
        for name, index, size in (
            ("node", features.row, nodes),
            ("number", features.column, width),
        ):
            if index.size and (index.min() < 0 or index.max() >= size):
                worst = int(index.min()) if index.min() < 0 else int(index.max())
                raise RequestError(
                    f"a graph of {nodes} nodes with {width} features has a feature of {name} "
                    f"{worst}; they are 0 to {size - 1}"
                )
        row, value = features.row, features.value
        wrong = ~np.isfinite(value)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        came = value[first]
        came = came[~np.isfinite(came)][0] if np.ndim(came) else came
        raise RequestError(f"node {int(row[first])} has a feature that is no number: {came}")
