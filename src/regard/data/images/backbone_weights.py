"""Files of weights as networks: which VGG or ResNet it is, names and shapes of its tensors say."""

import re
from collections.abc import Callable, Mapping
from itertools import pairwise

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from regard.errors import RequestError
from regard.layers.norm import BatchNorm
from regard.models.resnet import BLOCKS, STEMS, ResidualBlocks
from regard.models.vgg import ConvolutionBlocks

__all__ = ["network_of"]

Weights = dict[str, Tensor]


def network_of(file: str, channels: int) -> nn.Module:
    """The convolutions of a `.safetensors` file, pictures (B, C, H, W) to maps (B, D, H', W').

    Layers behind the convolutions are passed over.

    Raises:
        RequestError: it is no such file, no network that is known, or reads other pictures.
    """
    try:
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        raise RequestError(
            f"task.backbone: {file} is no safetensors file: {' '.join(str(error).split())}"
        ) from None
    tensors = {n: one for n, one in tensors.items() if not n.endswith("num_batches_tracked")}
    for reader in READERS:
        found = reader(tensors)
        if found is not None:
            break
    else:
        some = ", ".join(sorted(tensors)[:3])
        raise RequestError(
            f"task.backbone: {file} has the tensors {some}, …: expected those of a VGG "
            "(features.0.weight, …) or a ResNet (conv1.weight, layer1.0.conv1.weight, …)"
        )
    network, weights = found
    first = next(one for one in weights.values() if one.dim() == 4)
    if first.shape[1] != channels:
        raise RequestError(
            f"task.backbone: {file} reads {first.shape[1]} channels, task.channels is {channels}"
        )
    own = network.state_dict()
    for name, one in own.items():
        there = weights.get(name)
        if there is None or there.shape != one.shape:
            shape = "is missing" if there is None else f"has the shape {tuple(there.shape)}"
            raise RequestError(
                f"task.backbone: {file}: of {type(network).__name__}, tensor {name} {shape}, "
                f"expected {tuple(one.shape)}"
            )
    if more := sorted(weights.keys() - own.keys()):
        raise RequestError(
            f"task.backbone: {file}: tensor {more[0]} belongs to no {type(network).__name__} that "
            "is known; export the network to ONNX"
        )
    network.load_state_dict({name: one.float() for name, one in weights.items()})
    return network.eval().requires_grad_(False)


def _resnet(tensors: Mapping[str, Tensor]) -> tuple[nn.Module, Weights] | None:
    """By torchvision's names, whatever stands before them."""
    starts = [n.removesuffix("conv1.weight") for n in tensors if n.endswith("conv1.weight")]
    start = next((s for s in starts if f"{s}layer1.0.conv1.weight" in tensors), None)
    if start is None:
        return None
    weights = {n.removeprefix(start): one for n, one in tensors.items() if n.startswith(start)}
    weights = {n: one for n, one in weights.items() if re.match(r"(conv1|bn1|layer\d+)\.", n)}
    stages = sorted({int(m[1]) for n in weights if (m := re.match(r"layer(\d+)\.", n))})
    counts = [len({n.split(".")[1] for n in weights if n.startswith(f"layer{s}.")}) for s in stages]
    widths = [len(weights.get(f"layer{s}.0.conv1.weight", ())) for s in stages]
    stem = weights["conv1.weight"]
    sides = {side: name for name, (side, _) in STEMS.items()}
    block = "bottleneck" if "layer1.0.conv3.weight" in weights else "basic"
    assert block in BLOCKS
    if stages != [*range(1, len(stages) + 1)] or 0 in widths or stem.shape[-1] not in sides:
        return None
    size = stem.shape[1]
    return ResidualBlocks(size, widths, counts, block, sides[stem.shape[-1]]), weights


def _own_vgg(tensors: Mapping[str, Tensor]) -> tuple[nn.Module, Weights] | None:
    """By the names of `ConvolutionBlocks`, whatever stands before them."""
    start = next((n.partition("blocks.0.0.")[0] for n in tensors if "blocks.0.0." in n), None)
    if start is None:
        return None
    weights = {n.removeprefix(start): one for n, one in tensors.items() if n.startswith(start)}
    kept = {n: one for n, one in weights.items() if re.fullmatch(r"blocks\.\d+\.\d+\.\w+", n)}
    blocks: dict[int, list[int]] = {}
    for name, one in kept.items():
        if one.dim() == 4 and name.endswith("weight"):
            blocks.setdefault(int(name.split(".")[1]), []).append(len(one))
    if sorted(blocks) != [*range(len(blocks))] or not blocks:
        return None
    each = [blocks[number] for number in range(len(blocks))]
    size = kept["blocks.0.0.weight"].shape[1] if "blocks.0.0.weight" in kept else 0
    if not size:
        return None
    return ConvolutionBlocks(size, [own[0] for own in each], [len(own) for own in each]), kept


class _Chain(nn.Module):
    """Convolutions, each with its normalization where it has one, as torchvision numbers them."""

    def __init__(self, layers: Mapping[int, tuple[Tensor, bool]], pooled: frozenset[int]) -> None:
        super().__init__()
        self.pooled = pooled
        self.features = nn.ModuleDict()
        for number, (weight, normalized) in layers.items():
            out, size = weight.shape[:2]
            self.features[str(number)] = nn.Conv2d(size, out, 3, padding=1)
            if normalized:
                self.features[str(number + 1)] = BatchNorm(out)

    def forward(self, x: Tensor) -> Tensor:
        """The maps of the last block, before its maximum."""
        for name, layer in self.features.items():
            if int(name) in self.pooled:
                x = nn.functional.max_pool2d(x, 2)
            x = layer(x)
            if str(int(name) + 1) not in self.features:
                x = torch.relu(x)
        return x


def _vgg(tensors: Mapping[str, Tensor]) -> tuple[nn.Module, Weights] | None:
    """By torchvision's names: where numbers leave one more out, a maximum stands."""
    at = {m[1]: m[0] for n in tensors if (m := re.search(r"features\.(\d+)\.weight$", n))}
    if "0" not in at:
        return None
    start = next(n for n in tensors if n.endswith("features.0.weight"))
    start = start.removesuffix("features.0.weight")
    kept = {
        n.removeprefix(start): one
        for n, one in tensors.items()
        if n.startswith(f"{start}features.")
    }
    numbers = sorted(int(n) for n in at)
    every = {n: kept[f"features.{n}.weight"] for n in numbers if f"features.{n}.weight" in kept}
    layers = {
        n: (one, f"features.{n + 1}.running_mean" in kept)
        for n, one in every.items()
        if one.dim() == 4
    }
    if any(tuple(one.shape[2:]) != (3, 3) for one, _ in layers.values()):
        return None
    order = sorted(layers)
    pooled = {b for a, b in pairwise(order) if b - a > 2 + layers[a][1]}
    return _Chain({n: layers[n] for n in order}, frozenset(pooled)), kept


READERS: tuple[Callable[[Mapping[str, Tensor]], tuple[nn.Module, Weights] | None], ...] = (
    _resnet,
    _own_vgg,
    _vgg,
)
