"""Which share of the training documents is held out as dev: `data.dev: {share: …}`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.errors import RequestError, nearest

__all__ = ["HELD_OUT", "held_out"]

HELD_OUT = {"share": float | int, "seed": int}
"""Keys of `data.dev` where it is a share of the training documents, with their types."""


def held_out(told: Mapping[str, Any], count: int) -> tuple[list[int], list[int]]:
    """(numbers of training documents, numbers of those that are dev), in their order.

    Args:
        told: `share` of the documents and `seed`.

    Raises:
        RequestError: an unknown key, or a share that leaves one side empty.

    Example:
        >>> held_out({"share": 0.25, "seed": 1}, 8)[1]
        [0, 5]
    """
    for key in told:
        if key not in HELD_OUT:
            raise RequestError(f"data.dev has no key {key!r}: {nearest(key, HELD_OUT)}")
    share = float(told.get("share", 0.15))
    size = round(share * count)
    if not 0 < size < count:
        raise RequestError(
            f"data.dev.share is {share:g}: of {count} training documents that leaves "
            f"{count - size} to train and {size} to stop by"
        )
    order = np.random.Generator(np.random.PCG64(int(told.get("seed", 1)))).permutation(count)
    return sorted(order[size:].tolist()), sorted(order[:size].tolist())
