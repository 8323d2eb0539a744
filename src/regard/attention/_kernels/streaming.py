"""What nobody else fuses: scores whose pairwise hidden tensor is never stored."""

from regard.attention._kernels.reference import parts
from regard.attention._kernels.table import Attended, Call
from regard.attention.score import Streaming as Streams

__all__ = ["Streaming"]


class Streaming:
    """Scores that have a blockwise form of their own (`score.stream`), then the parts as usual.

    Additive today: blocks of plain PyTorch, forward and backward, in the sigmoid form of tanh.
    """

    name = "streaming"

    def refuses(self, call: Call) -> str | None:
        """Scores without a `stream`, and scores that see a carry's features."""
        if not isinstance(call.score, Streams):
            return f"{type(call.score).__name__} has no blockwise form"
        if call.carry is not None and getattr(call.score, "features", None) is not None:
            return "its score reads features of the carry, which are one tensor per pair"
        return None

    def run(self, call: Call) -> Attended:
        """Stream the scores; [*batch, Q, K] weights are made, [*batch, Q, K, D] never is."""
        return parts(call, stream=True)
