r"""Blocks of small convolutions, each followed by the largest of four neighbors.

Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", ICLR
2015, arXiv 1409.1556.

    x ← f(w * x + b)            3 x 3, as large as before, `convolutions` times a block
    x ← max over 2 x 2          half as large
    y = W [f(…)] + b            of the mean over all places

f is the rectifier. The defaults are configuration D, VGG-16. The maps of the last block before its
maximum are the regions that captioners look at (Xu et al. 2015).

Shapes: pictures (B, C, H, W); regions (B, L, widths[-1]), row by row; logits (B, num_classes).

**Departs from the paper**: the fully connected layers read the mean over all places, not 7 x 7
places of a picture of 224 x 224: pictures may have any size that the blocks can halve. One
layer of `ffn_dim` units, not two. Filters start as He et al. (2015) have them, so that no smaller
network is trained first.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RequestError
from regard.models._sentence import Head
from regard.protocols import Inputs, Output, pictures_of

__all__ = ["VGG", "ConvolutionBlocks"]


class ConvolutionBlocks(nn.Module):
    """The convolutions: pictures to maps.

    Args:
        in_channels: of the picture.
        widths: filters of each block.
        convolutions: of each block, as many numbers.

    Shapes:
        (B, C, H, W) to (B, widths[-1], H', W'), halved between blocks
    """

    def __init__(
        self, in_channels: int, widths: Sequence[int], convolutions: Sequence[int]
    ) -> None:
        super().__init__()
        if len(widths) != len(convolutions) or not widths or min(*widths, *convolutions) < 1:
            raise RequestError(
                "VGG expected a number of convolutions for each block, all of 1 or more, got "
                f"widths {list(widths)} and convolutions {list(convolutions)}"
            )
        self.size = widths[-1]
        """Maps of the last block."""
        self.blocks, size = nn.ModuleList(), in_channels
        for width, count in zip(widths, convolutions, strict=True):
            sizes = [size, *[width] * count]
            self.blocks.append(
                nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(sizes))
            )
            size = width
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Float[Tensor, "batch maps high wide"]:
        """The maps of the last block, before its maximum.

        Raises:
            RequestError: the picture is too small to be halved so often.
        """
        if min(x.shape[2:]) >> (len(self.blocks) - 1) < 1:
            raise RequestError(
                f"VGG halves a picture {len(self.blocks) - 1} times; {x.shape[3]} × {x.shape[2]} "
                "pixels are too few: fewer blocks (model.widths) or a larger task.size"
            )
        for number, block in enumerate(self.blocks):
            if number:
                x = F.max_pool2d(x, 2)
            assert isinstance(block, nn.ModuleList)
            for layer in block:
                x = torch.relu(layer(x))
        return x


class VGG(nn.Module):
    """A `Classifier` of pictures by convolutions.

    Args:
        in_channels: of the picture.
        num_classes: of the output.
        widths: filters of each block.
        convolutions: of each block, as many numbers.
        ffn_dim: units of the layer before the output.
        dropout: before that layer and before the output.
    """

    normalized = False

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        widths: Sequence[int] = (64, 128, 256, 512, 512),
        convolutions: Sequence[int] = (2, 2, 3, 3, 3),
        ffn_dim: int = 4096,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.in_channels, self.num_classes = in_channels, num_classes
        self.features = ConvolutionBlocks(in_channels, widths, convolutions)
        self.head = Head(widths[-1], num_classes, ffn_dim=ffn_dim, dropout=dropout)

    def regions(self, source: Tensor | Inputs) -> Float[Tensor, "batch regions size"]:
        """What is at each place of the last block, row by row."""
        maps: Tensor = self.features(
            pictures_of(source, self.in_channels).to(self.head.output.weight.dtype)
        )
        return maps.flatten(2).mT

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Logits (B, num_classes) of pictures (B, C, H, W)."""
        return Output(self.head(self.regions(source).mean(1)), {})
