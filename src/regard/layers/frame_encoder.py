"""Frames of a sound: joined, and read by bidirectional recurrent layers."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.dropout import dropout as drop
from regard.layers.layout import PackedLayout
from regard.layers.pool import real
from regard.layers.rnn import BiGRU

__all__ = ["FrameEncoder", "joined"]


class FrameEncoder(nn.Module):
    r"""Bidirectional GRU layers over frames; padding is never computed.

    Args:
        inputs: D, numbers of a frame.
        hidden: H, units of each direction.
        layers: how many.
        join: this many neighboring frames are read as one, side by side; the end is filled with
            zeros. 1: each frame by itself.
        dropout: on the states of each layer.

    Shapes:
        frames (B, T, D) and lengths (B,) to states (B, T', 2H) and lengths (B,), with
        T' = ceil(T / join)
    """

    def __init__(
        self, inputs: int, hidden: int, layers: int, *, join: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.join, self.dropout = join, dropout
        self.layers = nn.ModuleList(
            BiGRU(2 * hidden if i else inputs * join, hidden, reset="before", update="take")
            for i in range(layers)
        )

    def forward(
        self, frames: Float[Tensor, "batch time dim"], lengths: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch short both"], Int[Tensor, " batch"]]:
        """Read the frames."""
        frames, lengths = joined(frames, lengths, self.join)
        inside = real(lengths, frames)
        layout = PackedLayout(inside)
        x = layout.take(frames)
        for layer in self.layers:
            assert isinstance(layer, BiGRU)
            x = drop(layer.packed(x, layout), self.dropout, self.training)
        return layout.put(x), lengths


def joined(
    frames: Float[Tensor, "batch time dim"], lengths: Int[Tensor, " batch"], join: int
) -> tuple[Float[Tensor, "batch short wide"], Int[Tensor, " batch"]]:
    """Every `join` neighboring frames as one, and how many there are.

    What lies behind the end of a row is zero, whatever it was.

    Example:
        >>> frames, lengths = joined(torch.ones(1, 5, 2), torch.tensor([3]), 2)
        >>> frames.tolist(), lengths.tolist()
        ([[[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]], [2])
    """
    if join == 1:
        return frames, lengths
    batch, time, dim = frames.shape
    frames = frames * real(lengths, frames)[..., None]
    frames = F.pad(frames, (0, 0, 0, -time % join))
    short = torch.div(lengths + join - 1, join, rounding_mode="floor")
    return frames.reshape(batch, -1, join * dim), short
