"""Relative positions by tiles: relative keys and values, biases and distance penalties."""

from regard.attention._kernels.skewed import supports_skewed, supports_skewed_parts
from regard.attention._kernels.tile_calls import run, unsupported_tiles_reason
from regard.attention.call import Attended, Call
from regard.attention.read import RelativeValues
from regard.attention.score import RelativeKeys

__all__ = ["Relative"]


class Relative:
    """`RelativeKeys`, `RelativeValues`, `RelativeBias`, `DistanceMask` and `ALiBi`, by tiles.

    Neither all pairs nor relative vectors per pair are stored, forward or backward. Fixed biases
    without a mask use PyTorch's fused kernel (`skewed.py`).
    """

    name = "relative"

    def unsupported_reason(self, call: Call) -> str | None:
        """Calls without relative positions, and calls that tiles do not support."""
        if (
            call.position is None
            and type(call.score) is not RelativeKeys
            and type(call.read) is not RelativeValues
        ):
            return "no part uses relative positions"
        return unsupported_tiles_reason(call)

    def backend(self, call: Call) -> str:
        """Tiles, or PyTorch's fused kernel for fixed biases without a mask."""
        if call.query is None and supports_skewed_parts(call):
            return "tiles; with fixed biases and no mask PyTorch's fused kernel"
        return "PyTorch's fused kernel, biases by strides" if supports_skewed(call) else "tiles"

    def run(self, call: Call) -> Attended:
        """Compute with the implementation that `backend` names."""
        return run(call)
