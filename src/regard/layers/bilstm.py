r"""A bidirectional LSTM over right-padded sequences."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layers.layout import PackedLayout
from regard.layers.lstm import LSTM
from regard.layers.reading import packed_order, padded_order, read_by, reads
from regard.layers.reverse import reverse
from regard.native.gemm import unhooked
from regard.native.reading import ReadingOrder

__all__ = ["BiLSTM"]

BOTH = (False, True)
"""The directions, and whether each reads backward."""


class BiLSTM(nn.Module):
    r"""Two LSTM layers, one per direction.

    .. math:: h_j = [\overrightarrow h_j; \overleftarrow h_j]

    Args:
        inputs, hidden, bias, project: as in `LSTM`, for each direction.

    Shapes:
        x (B, T, inputs) and lengths (B,) to (B, T, 2H), zero after the end
    """

    def __init__(self, inputs: int, hidden: int, *, bias: bool = False, project: int = 0) -> None:
        super().__init__()
        self.ahead = LSTM(inputs, hidden, bias=bias, project=project)
        self.back = LSTM(inputs, hidden, bias=bias, project=project)

    def forward(
        self, x: Float[Tensor, "batch time inputs"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch time both"]:
        """Run both directions."""
        found = self._padded_in_c(x, lengths)
        if found is not None:
            return found
        ahead, _ = self.ahead(x, lengths)
        back, _ = self.back(reverse(x, lengths), lengths)
        return torch.cat([ahead, reverse(back, lengths)], -1)

    def padded(
        self, x: Float[Tensor, "batch time inputs"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch time both"]:
        """The same with padding read like words: faster on a CPU where little of a batch is it.

        Padding lies behind all words of either direction, so they never see it.
        """
        found = self._padded_in_c(x, lengths)
        if found is not None:
            return found
        ahead, _ = self.ahead(x)
        back, _ = self.back(reverse(x, lengths))
        padding = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
        return torch.cat([ahead, reverse(back, lengths)], -1).masked_fill(padding[..., None], 0.0)

    def packed(
        self, x: Float[Tensor, "words inputs"], layout: PackedLayout
    ) -> Float[Tensor, "words both"]:
        """The states of sequences without padding: x (N, inputs) to (N, 2H), in that layout."""
        if self._in_c(x, layout.sizes[0] if layout.sizes else 0):
            return self._read_in_c(x, packed_order(layout, BOTH))
        back = self.back.packed(x, layout, backward=True)
        return torch.cat([self.ahead.packed(x, layout), back], -1)

    def _in_c(self, x: Tensor, sequences: int) -> bool:
        """Whether C reads both directions in one call."""
        lstms = self.ahead, self.back
        return all(
            type(one) is LSTM and unhooked(one) and not one.stack.proj_size for one in lstms
        ) and reads(x, [*self.ahead.parts, *self.back.parts], sequences=sequences)

    def _padded_in_c(self, x: Tensor, lengths: Tensor) -> Tensor | None:
        if not self._in_c(x, x.shape[0]):
            return None
        order = padded_order(x, lengths, BOTH)
        return (
            None
            if order is None
            else self._read_in_c(x.flatten(0, 1), order).view(*x.shape[:2], -1)
        )

    def _read_in_c(self, x: Tensor, order: ReadingOrder) -> Tensor:
        weights = [self.ahead.weights(), self.back.weights()]
        return read_by(self, "layer", weights, x, order, lstm=True).states.flatten(1)
