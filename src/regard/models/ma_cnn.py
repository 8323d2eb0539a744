r"""Convolutions whose channels are grouped into parts, each part with a map of its own.

Zheng, Fu, Mei and Luo, "Learning Multi-Attention Convolutional Neural Network for Fine-Grained
Image Recognition", ICCV 2017.

    F = W * X                                        maps of the last block (section 3.1)
    d_i = f_i(F),  M_i = σ(Σ_j d_ij F_j + b_i)       of part i: the weights of channels, its map
    m_i = M_i / Σ_xy M_i                             the share of each place
    P_i = Σ_xy m_i(x, y) F(x, y)                     the part's features
    y = W_y [P_1; …; P_N; mean F]                    the answer; each part, and the whole, has
                                                     an answer of its own beside it
    Dis(m_i) = Σ_xy m_i(x, y) [(x - t_x)² + (y - t_y)²]      t_i is where m_i is largest
    Div(m_i) = Σ_xy m_i(x, y) [max_{k≠i} m_k(x, y) - mrg]
    L = Σ cross-entropies + Σ_i Dis(m_i) + λ Div(m_i)        (section 3.2)

A map is to be compact (Dis) and away from the others (Div). t_i and the maximum are constants in
the gradient. The paper trains in turns: the grouping layers f_i by Dis and Div with the
convolutions fixed, then convolutions and classifiers with the grouping layers fixed. Here both
turns are in one update: the grouping loss reads F as a constant, and the answers read d and b as
constants (`gradient: "apart"`).

Shapes: pictures (B, C, H, W); logits (B, num_classes); extra: `maps` (B, N, H', W') that sum to
one, `auxiliary` (B, N + 1, num_classes), and in training `penalty`, the mean grouping loss.

**Departs from the paper**: no crops about the peaks are read by further networks of parts. Maps are
divided by their sum: the least grouping loss of the plain ones is that of empty maps. Distances are
in shares of the map's longer side, so that λ means the same at any size. f_i reads the largest
value of each channel, so that a picture may have any size, and has an offset b_i: features are
rectified, and σ(0) = 1/2 would be seen everywhere. f_i starts at random, not from k-means of where
channels are largest.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.declaring import Declaring
from regard.attention.recording import record_weights, scope
from regard.errors import RequestError, nearest
from regard.models.vgg import ConvolutionBlocks
from regard.protocols import Inputs, Output, pictures_of

__all__ = [
    "MACNN",
    "ChannelGrouping",
    "channel_grouping_loss",
    "distance_loss",
    "diversity_loss",
    "part_maps",
]


def distance_loss(maps: Float[Tensor, "batch parts high wide"]) -> Float[Tensor, "batch parts"]:
    """How far from its largest place a map lies: 0 where all of it is there.

    Args:
        maps: that sum to one.

    Example:
        >>> maps = torch.tensor([[[[0.75, 0.25]]]])
        >>> distance_loss(maps)  # a quarter is half of the map's longer side away
        tensor([[0.0625]])
    """
    high, wide = maps.shape[2:]
    peak = maps.detach().flatten(2).argmax(-1)[..., None, None]
    y = torch.arange(high, device=maps.device)[:, None] - peak // wide
    x = torch.arange(wide, device=maps.device) - peak % wide
    squares = (x**2 + y**2).to(maps.dtype) / max(high, wide) ** 2
    return (maps * squares).sum((2, 3))


def diversity_loss(
    maps: Float[Tensor, "batch parts high wide"], margin: float = 0.02
) -> Float[Tensor, "batch parts"]:
    """How much of a map lies where another one is large.

    Args:
        maps: of two parts or more.
        margin: what another one may have without harm.

    Example:
        >>> maps = torch.tensor([[[[1.0, 0.0]], [[0.5, 0.5]]]])
        >>> diversity_loss(maps, 0.0)
        tensor([[0.5000, 0.5000]])
    """
    fixed = maps.detach()
    first, second = fixed.topk(2, 1).values.unbind(1)
    others = torch.where(fixed == first[:, None], second[:, None], first[:, None])
    return (maps * (others - margin)).sum((2, 3))


def channel_grouping_loss(
    maps: Float[Tensor, "batch parts high wide"], diversity: float = 2.0, margin: float = 0.02
) -> Float[Tensor, ""]:
    """Σ_i Dis(m_i) + λ Div(m_i), the mean of the pictures.

    Args:
        maps: that sum to one.
        diversity: λ.
        margin: mrg.
    """
    each = distance_loss(maps)
    if maps.shape[1] > 1:
        each = each + diversity * diversity_loss(maps, margin)
    return each.sum(1).mean()


class ChannelGrouping(nn.Module):
    """For each part the weights of all channels, and an offset.

    Args:
        channels: of the features.
        parts: N.
        hidden: units of each part's layer.

    Shapes:
        (B, C, H, W) to (B, N, C) and (B, N)
    """

    def __init__(self, channels: int, parts: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(channels, hidden), nn.Tanh(), nn.Linear(hidden, channels + 1))
            for _ in range(parts)
        )

    def forward(
        self, features: Float[Tensor, "batch channels high wide"]
    ) -> tuple[Float[Tensor, "batch parts channels"], Float[Tensor, "batch parts"]]:
        """(d, b)."""
        peaks = features.amax((2, 3))
        found = torch.stack([layer(peaks) for layer in self.layers], 1)
        return found[..., :-1], found[..., -1]


def part_maps(
    features: Float[Tensor, "batch channels high wide"],
    weights: Float[Tensor, "batch parts channels"],
    offset: Float[Tensor, "batch parts"],
) -> Float[Tensor, "batch parts high wide"]:
    """M_i of each part, divided by its sum."""
    sums = torch.einsum("bchw,bnc->bnhw", features, weights) + offset[..., None, None]
    return F.logsigmoid(sums).flatten(2).softmax(-1).view_as(sums)  # never 0 / 0


class PartMaps(Declaring):
    """The map of each part; a watcher sees them as large as the picture."""

    def __init__(self) -> None:
        super().__init__()
        self.declare("region", None)

    def forward(
        self, features: Tensor, weights: Tensor, offset: Tensor, size: Sequence[int]
    ) -> Float[Tensor, "batch parts high wide"]:
        """m, which sum to one."""
        maps = part_maps(features, weights, offset)
        for part in range(maps.shape[1]):
            with scope("part", part):
                record_weights(self, partial(_enlarged, maps[:, part : part + 1], size))
        return maps


def _enlarged(part: Tensor, size: Sequence[int]) -> Float[Tensor, "batch 1 pixels"]:
    """The share of each pixel of the picture."""
    own = F.interpolate(part.float(), tuple(size), mode="bilinear", align_corners=False).flatten(2)
    return own / own.sum(-1, keepdim=True)


GRADIENT: Mapping[str, Callable[[Tensor], Tensor]] = {
    "apart": Tensor.detach,
    "joint": lambda value: value,
}
"""What the other loss of the two trains: nothing of grouping and features, or both."""


class MACNN(nn.Module):
    """A `Classifier` of pictures by their parts, which nobody has named.

    Args:
        in_channels: of the picture.
        num_classes: of the output.
        parts: N.
        widths: filters of each block.
        convolutions: of each block, as many numbers.
        hidden: units of each grouping layer.
        diversity: λ, what Div counts beside Dis.
        margin: mrg.
        penalty: what the grouping loss counts beside the cross-entropies.
        gradient: one of `GRADIENT`.
    """

    normalized = False

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        parts: int = 4,
        widths: Sequence[int] = (64, 128, 256, 512, 512),
        convolutions: Sequence[int] = (2, 2, 4, 4, 4),
        hidden: int = 512,
        diversity: float = 2.0,
        margin: float = 0.02,
        penalty: float = 1.0,
        gradient: str = "apart",
    ) -> None:
        super().__init__()
        if gradient not in GRADIENT:
            raise RequestError(
                f"MACNN: gradient has no {gradient!r}: {nearest(gradient, GRADIENT)}"
            )
        if parts < 1 or min(diversity, margin, penalty) < 0:
            raise RequestError(
                "MACNN expected a part or more, and no negative diversity, margin or penalty; got "
                f"{parts}, {diversity:g}, {margin:g} and {penalty:g}"
            )
        self.in_channels, self.num_classes = in_channels, num_classes
        self.diversity, self.margin, self.penalty = diversity, margin, penalty
        self.gradient = gradient
        self.features = ConvolutionBlocks(in_channels, widths, convolutions)
        self.grouping = ChannelGrouping(widths[-1], parts, hidden)
        self.maps = PartMaps()
        self.answers = nn.ModuleList(nn.Linear(widths[-1], num_classes) for _ in range(parts + 1))
        self.answer = nn.Linear((parts + 1) * widths[-1], num_classes)

    def forward(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Output:
        """Logits (B, num_classes) of pictures (B, C, H, W)."""
        picture = pictures_of(source, self.in_channels).to(self.answer.weight.dtype)
        features = self.features(picture)
        fixed = GRADIENT[self.gradient]
        weights, offset = self.grouping(fixed(features))
        maps = self.maps(features, fixed(weights), fixed(offset), picture.shape[2:])
        parts = torch.einsum("bnhw,bchw->bnc", maps, features)
        every = torch.cat([parts, features.mean((2, 3))[:, None]], 1)
        each = [answer(every[:, i]) for i, answer in enumerate(self.answers)]
        extra = {"maps": maps, "auxiliary": torch.stack(each, 1)}
        if self.training:
            grouped = part_maps(fixed(features), weights, offset)
            loss = channel_grouping_loss(grouped, self.diversity, self.margin)
            extra["penalty"] = self.penalty * loss
        return Output(self.answer(every.flatten(1)), extra)
