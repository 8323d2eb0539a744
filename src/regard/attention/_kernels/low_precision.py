"""Low precision throughout, only on request."""

import torch

from regard.attention._kernels.tile_calls import run, unsupported_tiles_reason
from regard.attention.call import Attended, Call

__all__ = ["Chunks"]


class Chunks:
    """Tiles in the precision of the tensors: scores and weights are rounded to bf16.

    On a CPU this is 1.1 to 2.7 times as fast as the fused kernel in bf16, which computes in fp32;
    the gain is largest on an idle machine. For inputs of unit variance the error of the context is
    2e-3 to 1.3e-2, and that of the fused kernel 0.6e-3 to 8e-3. Therefore it is used only inside
    `kernels("chunks")`.
    """

    name = "chunks"

    def unsupported_reason(self, call: Call) -> str | None:
        """Tensors that are not in low precision, and calls that tiles do not support."""
        if call.query is not None and call.query.dtype not in (torch.bfloat16, torch.float16):
            return f"it is for bf16 and fp16 tensors, and these are {call.query.dtype}"
        if not hasattr(call.score, "as_dot"):
            return f"{type(call.score).__name__} is not a dot product"
        return unsupported_tiles_reason(call)

    def run(self, call: Call) -> Attended:
        """Compute by tiles, in the precision of the tensors."""
        return run(call, low=True)
