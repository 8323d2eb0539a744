r"""Blocks of convolutions that say what is to be added to what they read.

He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", CVPR 2016, arXiv 1512.03385.

    x ← f(F(x) + x)                              where F(x) has the form of x             (1)
    x ← f(F(x) + W_s x)                          at the first block of a stage            (2)
    F(x) = N(W_2 * f(N(W_1 * x)))                basic: two convolutions of 3 x 3         (3.1)
    F(x) = N(W_3 * f(N(W_2 * f(N(W_1 * x)))))    bottleneck: of 1 x 1, 3 x 3 and 1 x 1    (4.1)
    y = W mean(x) + b                            of the mean over all places

f is the rectifier, N batch normalization, W_s a convolution of 1 x 1 (option B). The first block of
each stage but the first one goes over every second place. Before the blocks stands one convolution:
of 7 x 7 over every second place, and the largest of 3 x 3 of these over every second place
("large", of the paper's pictures of 224 x 224), or of 3 x 3 ("small", of its pictures of 32 x 32).
The defaults are the network of 18 layers.

Shapes: pictures (B, C, H, W); regions (B, L, D), row by row; logits (B, num_classes). D is
widths[-1], four times as many with bottlenecks.

**Departs from the paper**: in a bottleneck the convolution of 3 x 3 goes over every second place,
not the first one of 1 x 1, as in most programs since; names of tensors are those of such
programs too, so that their weights can be read. Each block's last normalization starts at 1.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RequestError, nearest
from regard.layers.norm import BatchNorm
from regard.protocols import Inputs, Output, pictures_of

__all__ = ["BLOCKS", "STEMS", "Basic", "Bottleneck", "ResNet", "ResidualBlocks"]


class Basic(nn.Module):
    """Two convolutions of 3 x 3, and what they read.

    Args:
        size: channels that are read.
        width: filters.
        stride: 2: over every second place.
    """

    factor = 1

    def __init__(self, size: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _convolution(size, width, 3, stride), BatchNorm(width)
        self.conv2, self.bn2 = _convolution(width, width, 3), BatchNorm(width)
        self.downsample = _shortcut(size, width * self.factor, stride)

    def forward(self, x: Tensor) -> Float[Tensor, "batch maps high wide"]:
        """f(F(x) + x)."""
        made = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(made + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """Convolutions of 1 x 1, 3 x 3 and 1 x 1, the last to four times as many maps.

    Args:
        size, width, stride: see `Basic`.
    """

    factor = 4

    def __init__(self, size: int, width: int, stride: int) -> None:
        super().__init__()
        out = width * self.factor
        self.conv1, self.bn1 = _convolution(size, width, 1), BatchNorm(width)
        self.conv2, self.bn2 = _convolution(width, width, 3, stride), BatchNorm(width)
        self.conv3, self.bn3 = _convolution(width, out, 1), BatchNorm(out)
        self.downsample = _shortcut(size, out, stride)

    def forward(self, x: Tensor) -> Float[Tensor, "batch maps high wide"]:
        """f(F(x) + x)."""
        made = torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))
        made = self.bn3(self.conv3(made))
        return torch.relu(made + (x if self.downsample is None else self.downsample(x)))


def _convolution(size: int, width: int, side: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(size, width, side, stride, side // 2, bias=False)


def _shortcut(size: int, out: int, stride: int) -> nn.Sequential | None:
    """W_s, where what is added has another form; None: nothing is done."""
    if stride == 1 and size == out:
        return None
    return nn.Sequential(_convolution(size, out, 1, stride), BatchNorm(out))


BLOCKS: Mapping[str, type[Basic] | type[Bottleneck]] = MappingProxyType(
    {"basic": Basic, "bottleneck": Bottleneck}
)
STEMS = MappingProxyType({"large": (7, 2), "small": (3, 1)})
"""Of what stands before the blocks: pixels of the convolution's side, and its stride."""


class ResidualBlocks(nn.Module):
    """The convolutions: pictures to maps.

    Args:
        in_channels: of the picture.
        widths: filters of each stage.
        convolutions: blocks of each stage, as many numbers.
        block: one of `BLOCKS`.
        stem: one of `STEMS`.

    Shapes:
        (B, C, H, W) to (B, size, H', W')
    """

    def __init__(
        self,
        in_channels: int,
        widths: Sequence[int],
        convolutions: Sequence[int],
        block: str = "basic",
        stem: str = "small",
    ) -> None:
        super().__init__()
        if len(widths) != len(convolutions) or not widths or min(*widths, *convolutions) < 1:
            raise RequestError(
                "ResNet expected a number of blocks for each stage, all of 1 or more, got "
                f"widths {list(widths)} and convolutions {list(convolutions)}"
            )
        for told, known, name in ((block, BLOCKS, "block"), (stem, STEMS, "stem")):
            if told not in known:
                raise RequestError(f"ResNet has no {name} {told!r}: {nearest(told, [*known])}")
        side, stride = STEMS[stem]
        self.halves, self.stages = stride == 2, len(widths)
        self.conv1 = _convolution(in_channels, widths[0], side, stride)
        self.bn1, size = BatchNorm(widths[0]), widths[0]
        for number, (width, count) in enumerate(zip(widths, convolutions, strict=True), 1):
            steps, blocks = [1 if number == 1 else 2] + [1] * (count - 1), []
            for step in steps:
                blocks.append(BLOCKS[block](size, width, step))
                size = width * BLOCKS[block].factor
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
        self.size = size
        """Maps of the last stage."""
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Float[Tensor, "batch maps high wide"]:
        """The maps of the last stage."""
        x = torch.relu(self.bn1(self.conv1(x)))
        if self.halves:
            x = F.max_pool2d(x, 3, 2, 1)
        for number in range(1, self.stages + 1):
            x = self.get_submodule(f"layer{number}")(x)
        return x


class ResNet(nn.Module):
    """A `Classifier` of pictures by residual blocks.

    Args:
        in_channels: of the picture.
        num_classes: of the output.
        widths: filters of each stage.
        convolutions: blocks of each stage, as many numbers.
        block: one of `BLOCKS`.
        stem: one of `STEMS`.
    """

    normalized = False

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        widths: Sequence[int] = (64, 128, 256, 512),
        convolutions: Sequence[int] = (2, 2, 2, 2),
        block: str = "basic",
        stem: str = "large",
    ) -> None:
        super().__init__()
        self.in_channels, self.num_classes = in_channels, num_classes
        self.features = ResidualBlocks(in_channels, widths, convolutions, block, stem)
        self.output = nn.Linear(self.features.size, num_classes)

    def regions(self, source: Tensor | Inputs) -> Float[Tensor, "batch regions size"]:
        """What is at each place of the last stage, row by row."""
        pictures = pictures_of(source, self.in_channels).to(self.output.weight.dtype)
        maps: Tensor = self.features(pictures)
        return maps.flatten(2).mT

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Logits (B, num_classes) of pictures (B, C, H, W)."""
        return Output(self.output(self.regions(source).mean(1)), {})
