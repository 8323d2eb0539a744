"""Inverse Euclidean distances by tiles; the negative squared ones are the fused kernel's."""

from regard.attention._kernels.table import Attended, Call
from regard.attention._kernels.tiled import run, unsupported_tiles_reason
from regard.attention.score import InverseEuclidean

__all__ = ["Euclidean"]


class Euclidean:
    """`InverseEuclidean`, with or without a position: the (Q, K, D) differences are never made."""

    name = "euclidean"

    def unsupported_reason(self, call: Call) -> str | None:
        """Other scores, and what cannot be done by tiles."""
        if type(call.score) is not InverseEuclidean:
            return f"{type(call.score).__name__} is no inverse distance"
        return unsupported_tiles_reason(call)

    def run(self, call: Call) -> Attended:
        """By tiles."""
        return run(call)
