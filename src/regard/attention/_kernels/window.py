"""Dot products within a window: only the tiles that it touches."""

from math import inf

from regard.attention._kernels.region import window_of
from regard.attention._kernels.table import Attended, Call
from regard.attention._kernels.tiled import refusal, run

__all__ = ["Windowed"]

FEW = 6  # a window pays where the keys are at least so many times as many


class Windowed:
    """Masks that hold a window (with other masks, too): O(T w) time and memory, not O(T^2)."""

    name = "window"

    def refuses(self, call: Call) -> str | None:
        """Masks without a limit on both sides; the rest is up to the tiles."""
        left, right = window_of(call.mask)
        if left == inf or right == inf:
            return "there is no window with a limit on both sides"
        return refusal(call)

    @classmethod
    def pays(cls, call: Call) -> bool:
        """Whether a call has a window so narrow that computing all pairs would take longer."""
        left, right = window_of(call.mask)
        if left == inf or right == inf or refusal(call) is not None:
            return False
        return call.key is None or FEW * (left + right + 1) <= call.key.shape[-2]

    def run(self, call: Call) -> Attended:
        """By tiles."""
        return run(call)
