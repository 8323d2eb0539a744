"""Networks that others trained, as what pictures are read by: their last maps are regions.

A backbone is a file: `.onnx`, run by onnxruntime, or `.safetensors` with the weights of a VGG or a
ResNet, by the names of torchvision (timm has the same ones) or of this package. It is not trained.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data import sources
from regard.data.images.backbone_onnx import onnx_maps
from regard.data.images.backbone_weights import network_of
from regard.errors import RegardError, RequestError, nearest
from regard.system.files import replace_file

__all__ = ["Backbone", "Maps", "backbone_of"]

Features = NDArray[np.float32]
Maps = Callable[[Features], Features]
"""A picture (1, C, H, W) to regions (L, D)."""

MEAN = {1: (0.0,), 3: (0.485, 0.456, 0.406)}
DEVIATION = {1: (1.0,), 3: (0.229, 0.224, 0.225)}
"""Of red, green and blue as networks trained on ImageNet take them; gray goes from 0 to 1."""


@dataclass(frozen=True)
class Backbone:
    """A network in a file, what it reads, and where its regions are kept.

    Args:
        path: the file; looked up as data are.
        channels: of the pictures.
        mean, deviation: of each channel of numbers from 0 to 1, taken off and divided by; not
            given: those of ImageNet for colors.
        output: of an `.onnx` file the name of the tensor whose maps are regions; "": the last one
            that has maps.
        cache: a folder that keeps the regions of each picture, so that they are computed once; "":
            none. Never are more of them in memory than those of a batch.
    """

    path: str
    channels: int = 3
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    output: str = ""
    cache: str = ""

    def __post_init__(self) -> None:
        if not self.path:
            raise RequestError("task.backbone: expected a path, an .onnx or .safetensors file")
        for name, usual in (("mean", MEAN), ("deviation", DEVIATION)):
            own = getattr(self, name) or usual[self.channels]
            if len(own) != self.channels or (name == "deviation" and min(own) <= 0):
                raise RequestError(
                    f"task.backbone.{name}: expected {self.channels} numbers"
                    f"{' above 0' if name == 'deviation' else ''}, got {list(own)}"
                )
            object.__setattr__(self, name, tuple(float(one) for one in own))

    @property
    def file(self) -> Path:
        """Where the file is.

        Raises:
            RequestError: it is not there.
        """
        found = sources.find(self.path)
        if not found.is_file():
            raise RequestError(f"task.backbone: {self.path} is no file")
        return found

    @property
    def digest(self) -> str:
        """What tells the file from all others: its SHA-256.

        Raises:
            RequestError: it is not there, or cannot be read.
        """
        file = self.file
        said = file.stat()
        return _digest(str(file), said.st_mtime_ns, said.st_size)

    def regions(self, pixels: NDArray[np.uint8]) -> Features:
        """The regions (L, D) of one picture (H, W, C).

        Raises:
            RequestError: the file is no network that can be used, or not with such pictures.
        """
        if not self.cache:
            return self._computed(pixels)
        at = self._kept_at(pixels)
        found = _read(at)
        if found is None:
            found = self._computed(pixels)
            made = found
            replace_file(at, lambda file: _write(file, made))
        return found

    def _computed(self, pixels: NDArray[np.uint8]) -> Features:
        mean, deviation = (np.array(one, np.float32) for one in (self.mean, self.deviation))
        scaled = (pixels.astype(np.float32) / 255 - mean) / deviation
        picture = np.ascontiguousarray(scaled.transpose(2, 0, 1)[None], np.float32)
        found = _opened(str(self.file), self.digest, self.channels, self.output)(picture)
        if not np.isfinite(found).all():
            raise RegardError(f"{self.path}: its regions of a picture are not finite numbers")
        return found

    def _kept_at(self, pixels: NDArray[np.uint8]) -> Path:
        """A file whose name says all that the regions depend on."""
        read = f"{self.digest} {self.mean} {self.deviation} {self.output}"
        folder = sha256(read.encode()).hexdigest()[:16]
        name = sha256(f"{pixels.shape}".encode() + pixels.tobytes()).hexdigest()
        return Path(self.cache) / folder / name[:2] / f"{name[2:40]}.npy"


def backbone_of(told: Mapping[str, Any], channels: int) -> Backbone | None:
    """The backbone that a section `task.backbone` describes; None for an empty one.

    Raises:
        RequestError: an unknown key, or a value of another kind.
    """
    if not told:
        return None
    known = [one.name for one in fields(Backbone) if one.name != "channels"]
    made: dict[str, Any] = {}
    for key, value in told.items():
        if key not in known:
            raise RequestError(f"task.backbone has no key {key!r}: {nearest(str(key), known)}")
        numbers = key in ("mean", "deviation")
        if not (_numbers(value) if numbers else isinstance(value, str)):
            kind = "a list of numbers" if numbers else "a text"
            raise RequestError(f"task.backbone.{key}: expected {kind}, got {value!r}")
        made[key] = tuple(map(float, value)) if numbers else value
    return Backbone(**{"path": "", **made}, channels=channels)


def _numbers(value: Any) -> bool:
    return isinstance(value, Sequence) and all(
        isinstance(one, int | float) and not isinstance(one, bool) for one in value
    )


@lru_cache(maxsize=4)
def _digest(file: str, changed: int, size: int) -> str:
    try:
        with open(file, "rb") as opened:
            return file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise RequestError(f"task.backbone: {file}: {error.strerror}") from None


@lru_cache(maxsize=2)
def _opened(file: str, digest: str, channels: int, output: str) -> Maps:
    """The network of a file; `digest`: another file under the same name is another network.

    Raises:
        RequestError: the file is no network that can be used.
    """
    if file.endswith(".onnx"):
        return onnx_maps(file, channels, output)
    if not file.endswith(".safetensors"):
        raise RequestError(f"task.backbone: {file}: expected an .onnx or .safetensors file")
    if output:
        raise RequestError("task.backbone.output: only tensors of an .onnx file have names")
    network = network_of(file, channels)

    @torch.no_grad()
    def maps(picture: Features) -> Features:
        found: Features = network(torch.from_numpy(picture))[0].flatten(1).T.contiguous().numpy()
        return found

    return maps


def _read(file: Path) -> Features | None:
    """What is kept; None: nothing, or no array of regions."""
    try:
        found = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    whole = isinstance(found, np.ndarray) and found.ndim == 2 and found.dtype == np.float32
    return found if whole else None


def _write(file: Path, regions: Features) -> None:
    with open(file, "wb") as out:
        np.save(out, regions)
