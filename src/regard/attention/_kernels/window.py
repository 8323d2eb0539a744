"""Dot products within a window or within documents: only the tiles that these touch."""

from math import inf

from regard.attention._kernels.region import Region, factors, window_of
from regard.attention._kernels.tile_calls import batch_of, run, unsupported_tiles_reason
from regard.attention.call import Attended, Call
from regard.attention.mask import Documents
from regard.attention.plain import exactly

__all__ = ["Windowed"]

FEW = 6  # a window pays where there are at least this many times as many keys
SHORT = 512  # keys; to look how long documents are would take longer than all pairs


class Windowed:
    """Masks with a window or documents, also combined with other masks.

    A window of w costs O(T w) instead of O(T^2).
    """

    name = "window"

    def unsupported_reason(self, call: Call) -> str | None:
        """Masks without a limit on both sides, and calls that tiles do not support."""
        if not _limited(call):
            return "there is no window with a limit on both sides, nor documents"
        return unsupported_tiles_reason(call)

    @classmethod
    def is_faster(cls, call: Call) -> bool:
        """Whether the mask leaves so few pairs that computing all pairs would be slower."""
        if not _limited(call) or unsupported_tiles_reason(call) is not None:
            return False
        if call.query is None or call.key is None:
            return True
        keys = call.key.shape[-2]
        left, right = window_of(call.mask)
        if FEW * (left + right + 1) <= keys:
            return True
        if keys < SHORT or not isinstance(call.at, int):
            return False
        region = Region(
            call.mask, batch_of(call), call.query.shape[-2], keys, call.at, call.query.device
        )
        return FEW * region.mean_reach() <= keys

    def run(self, call: Call) -> Attended:
        """Compute by tiles."""
        return run(call)


def _limited(call: Call) -> bool:
    """Whether a mask has limits on both sides."""
    if call.mask is None:
        return False
    left, right = window_of(call.mask)
    return max(left, right) < inf or any(exactly(x, Documents) for x in factors(call.mask))
