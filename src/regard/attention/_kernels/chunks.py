"""Low precision throughout, where it was asked for."""

import torch

from regard.attention._kernels.table import Attended, Call
from regard.attention._kernels.tiled import run, unsupported_tiles_reason

__all__ = ["Chunks"]


class Chunks:
    """Tiles in the precision of the tensors: scores and weights are rounded to bf16.

    On a CPU this is 1.1 to 2.7 times as fast as the fused kernel in bf16, which computes in fp32;
    the more, the less else runs on the machine. The context's error is 2e-3 to 1.3e-2 for inputs of
    unit variance where the fused kernel's is 0.6e-3 to 8e-3, so it is never chosen unless
    `kernels("chunks")` asks for it.
    """

    name = "chunks"

    def unsupported_reason(self, call: Call) -> str | None:
        """What cannot be done by tiles, and tensors that have no low precision."""
        if call.query is not None and call.query.dtype not in (torch.bfloat16, torch.float16):
            return f"it is for bf16 and fp16 tensors, and these are {call.query.dtype}"
        if not hasattr(call.score, "as_dot"):
            return f"{type(call.score).__name__} is not a dot product"
        return unsupported_tiles_reason(call)

    def run(self, call: Call) -> Attended:
        """By tiles, in the tensors' own precision."""
        return run(call, low=True)
