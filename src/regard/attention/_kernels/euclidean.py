"""Inverse Euclidean distances by tiles (negative squared ones use the fused kernel)."""

from regard.attention._kernels.tile_calls import run, unsupported_tiles_reason
from regard.attention.call import Attended, Call
from regard.attention.score import InverseEuclidean

__all__ = ["Euclidean"]


class Euclidean:
    """`InverseEuclidean`, with or without a position, without (Q, K, D) differences."""

    name = "euclidean"

    def unsupported_reason(self, call: Call) -> str | None:
        """Other scores, and calls that tiles do not support."""
        if type(call.score) is not InverseEuclidean:
            return f"{type(call.score).__name__} is no inverse distance"
        return unsupported_tiles_reason(call)

    def run(self, call: Call) -> Attended:
        """Compute by tiles."""
        return run(call)
