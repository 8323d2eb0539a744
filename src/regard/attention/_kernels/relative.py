"""Scores that know distances: relative keys and values, biases and penalties, by tiles."""

from regard.attention._kernels.skewed import supports_skewed, supports_skewed_parts
from regard.attention._kernels.table import Attended, Call
from regard.attention._kernels.tiled import run, unsupported_tiles_reason
from regard.attention.read import RelativeValues
from regard.attention.score import RelativeKeys

__all__ = ["Relative"]


class Relative:
    """`RelativeKeys`, `RelativeValues`, `RelativeBias`, `DistanceMask` and `ALiBi`, by tiles.

    Neither all pairs nor a tensor of relative vectors is ever made, forward or backward. Fixed
    biases without a mask go to PyTorch's fused kernel (`skewed.py`).
    """

    name = "relative"

    def unsupported_reason(self, call: Call) -> str | None:
        """What has nothing relative in it, and what cannot be done by tiles."""
        if (
            call.position is None
            and type(call.score) is not RelativeKeys
            and type(call.read) is not RelativeValues
        ):
            return "no part of it knows distances"
        return unsupported_tiles_reason(call)

    def backend(self, call: Call) -> str:
        """By tiles, or by PyTorch's kernel where all is fixed and nothing is masked."""
        if call.query is None and supports_skewed_parts(call):
            return "tiles; with fixed biases and no mask PyTorch's fused kernel"
        return "PyTorch's fused kernel, biases by strides" if supports_skewed(call) else "tiles"

    def run(self, call: Call) -> Attended:
        """By tiles, or as `backend` says."""
        return run(call)
