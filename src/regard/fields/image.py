"""Pictures: one for each example, read when a batch has it."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.addresses import address_of
from regard.data.images import images
from regard.data.images.augment import Varied
from regard.data.images.images import PictureSource, resized
from regard.data.images.scenes import Scene
from regard.errors import RequestError, nearest
from regard.fields.base import Field, Report
from regard.fields.file_cells import AddressedField, Cache
from regard.protocols import Inputs

__all__ = ["FITS", "ImageColumn", "ImageField"]

Pixels = NDArray[np.uint8]

SAMPLE = 1000
"""Pictures of the training data whose mean and deviation are taken."""
CACHED = 1 << 26
"""Bytes of decoded pictures that are kept; what is beyond is read again."""


def _stretched(one: Pixels, size: tuple[int, int]) -> Pixels:
    return resized(one, size)


def _cropped(one: Pixels, size: tuple[int, int]) -> Pixels:
    """The middle of the picture, as large as it goes."""
    ratio = max(size[0] / one.shape[0], size[1] / one.shape[1])
    high, wide = (max(round(s * ratio), t) for s, t in zip(one.shape, size, strict=False))
    y, x = (high - size[0]) // 2, (wide - size[1]) // 2
    return resized(one, (high, wide))[y : y + size[0], x : x + size[1]]


def _padded(one: Pixels, size: tuple[int, int]) -> Pixels:
    """The whole picture, with zeros at two of its sides."""
    ratio = min(size[0] / one.shape[0], size[1] / one.shape[1])
    high, wide = (min(max(round(s * ratio), 1), t) for s, t in zip(one.shape, size, strict=False))
    made = np.zeros((*size, one.shape[2]), np.uint8)
    _middle(made, resized(one, (high, wide)))
    return made


FITS = {"crop": _cropped, "pad": _padded, "stretch": _stretched}
"""How a picture of another form comes to the size that is read."""


class ImageColumn:
    """Pictures that are decoded when a batch has them, and kept as far as they are small.

    Args:
        pictures: where they are.
        field: says how they are read.
        every: all pictures of the split, which scenes take their other pieces from.
        cache: pictures that were decoded.
    """

    def __init__(
        self,
        pictures: Sequence[PictureSource],
        field: "ImageField",
        every: Sequence[PictureSource] = (),
        cache: Cache | None = None,
    ) -> None:
        self.pictures, self.field = list(pictures), field
        self.every = list(every) or list(dict.fromkeys(replace(p, scene=None) for p in pictures))
        self.cache = cache or Cache(field.room)

    def __len__(self) -> int:
        return len(self.pictures)

    @property
    def addresses(self) -> list[str]:
        """Where each is, for who reads it by itself."""
        return [address_of(one) for one in self.pictures]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Each counts one in the budget of a batch."""
        return np.ones(len(self), np.int64)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Each counts once."""
        return np.ones(len(self), np.int64)

    def take(self, indices: NDArray[np.int64]) -> "ImageColumn":
        """Some of the pictures."""
        some = [self.pictures[int(i)] for i in indices]
        return type(self)(some, self.field, self.every, self.cache)

    def pixels(self, index: int) -> Pixels:
        """One picture as a model reads it, before its numbers are scaled: (H, W, C)."""
        picture, field = self.pictures[index], self.field
        made = field.scene or field.vary
        if made is None or picture.scene is None:
            return self.cache.get(picture, field.fitted)
        seed = [made.seed, crc32(picture.name.encode()), picture.scene]
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        one = replace(picture, scene=None)
        if isinstance(made, Varied):
            return made.changed(self.cache.get(one, field.fitted), random)

        def other(number: int) -> Pixels:
            found = self.every[number]
            if found == one:
                found = self.every[number - 1]
            return self.cache.get(found, field.decoded)

        count = len(self.every) if len(self.every) > 1 else 0
        return made.lay(self.cache.get(one, field.decoded), other, count, random)

    def collate(self, indices: NDArray[np.int64]) -> Inputs:
        """Pictures (B, C, H, W), float32."""
        each = np.stack([self.pixels(int(i)) for i in indices]).astype(np.float32) / 255
        each = (each - self.field.mean) / self.field.deviation
        return Inputs(torch.from_numpy(np.ascontiguousarray(each.transpose(0, 3, 1, 2))))


class ImageField(AddressedField):
    """A picture: a file, a member of a tar archive, or a place in an array of an `.npz` file.

    A batch has (B, channels, height, width) float32. Nothing but addresses is kept of a folder;
    pictures are decoded when a batch has them.

    Args:
        size: pixels each way, or (height, width).
        channels: 1 for gray, 3 for red, green and blue.
        fit: one of `FITS`, for pictures of another size.
        normalize: the mean of the training data is taken off, and its deviation divided by; else
            numbers go from 0 to 1.
        scene: what pictures of data are laid in; a picture that a user gives is laid in the middle
            of an empty canvas where it is smaller, and resized where it is larger.
        vary: how training pictures are changed, where there is no scene.
        target, of: see `Field`.
    """

    kind: ClassVar[str] = "image"
    room = CACHED

    def __init__(
        self,
        size: int | Sequence[int] = 64,
        channels: int = 3,
        *,
        fit: str = "crop",
        normalize: bool = True,
        scene: Scene | None = None,
        vary: Varied | None = None,
        target: bool = False,
        of: str | None = None,
    ) -> None:
        super().__init__(target=target, of=of)
        sides = (size, size) if isinstance(size, int) else tuple(size)
        if len(sides) != 2 or min(sides) < images.SMALLEST:
            raise RequestError(
                f"size: expected {images.SMALLEST} pixels or more, or [height, width], got {size}"
            )
        if channels not in (1, 3):
            raise RequestError(f"channels: expected 1 (gray) or 3 (colors), got {channels}")
        if fit not in FITS:
            raise RequestError(f"fit: there is no {fit!r}: {nearest(fit, FITS)}")
        self.size = (int(sides[0]), int(sides[1])) if scene is None else (scene.size,) * 2
        self.channels, self.fit, self.normalize, self.scene = channels, fit, normalize, scene
        self.vary = vary
        self.mean = np.zeros(channels, np.float32)
        self.deviation = np.ones(channels, np.float32)

    # -- reading

    def found(self, address: str) -> PictureSource:
        """Where the picture is."""
        picture = images.located(address, self._file)
        self.decoded(picture)
        return picture

    def decoded(self, picture: PictureSource) -> Pixels:
        """Its pixels, of its own size.

        Raises:
            PictureError: it is no picture.
        """
        return images.pixels(picture, self.channels)

    def fitted(self, picture: PictureSource) -> Pixels:
        """Its pixels at the size that is read."""
        one = self.decoded(picture)
        if one.shape[:2] == self.size:
            return one
        if self.scene is not None and max(one.shape[:2]) <= self.scene.size:
            return _middle(self.scene.canvas(one), one)
        return FITS[self.fit](one, self.size)

    # -- learning

    def learn(self, values: Sequence[Any]) -> "ImageField":
        """With the mean and the deviation of each channel, of some of the training data."""
        made = copy(self)
        if not self.normalize or not values:
            return made
        column: Any = made.encode(values, lambda *_: None, {})
        at = np.unique(np.linspace(0, len(values) - 1, SAMPLE).round().astype(int))
        total, squares = np.zeros(self.channels), np.zeros(self.channels)
        for i in at.tolist():
            one = column.pixels(i).reshape(-1, self.channels) / 255
            total += one.mean(0)
            squares += (one**2).mean(0)
        mean = total / len(at)
        deviation = np.sqrt(np.maximum(squares / len(at) - mean**2, 1e-4))
        made.mean, made.deviation = mean.astype(np.float32), deviation.astype(np.float32)
        return made

    def arguments(self) -> dict[str, int]:
        """`in_channels`."""
        return {"in_channels": self.channels}

    def encode(
        self,
        values: Sequence[PictureSource],
        report: Report,
        fields: Mapping[str, Field],
        rows: Any = None,
    ) -> ImageColumn:
        """The pictures, not yet read."""
        return ImageColumn(values, self)

    # -- saving

    def state(self) -> dict[str, Any]:
        """Mean and deviation of each channel."""
        return {
            "mean": [round(float(v), 6) for v in self.mean],
            "deviation": [round(float(v), 6) for v in self.deviation],
        }

    def restored(self, state: Mapping[str, Any]) -> "ImageField":
        """With what was saved."""
        made = copy(self)
        mean, deviation = (np.array(state[key], np.float32) for key in ("mean", "deviation"))
        if mean.shape != (self.channels,) or deviation.shape != mean.shape:
            raise ValueError(f"expected {self.channels} numbers under 'mean' and 'deviation'")
        if not np.isfinite(mean).all() or not (deviation > 0).all():
            raise ValueError("expected finite means, and deviations above 0")
        made.mean, made.deviation = mean, deviation
        return made


def _middle(canvas: Pixels, one: Pixels) -> Pixels:
    """A picture laid in the middle of a larger one."""
    y, x = ((c - s) // 2 for c, s in zip(canvas.shape[:2], one.shape[:2], strict=True))
    canvas[y : y + one.shape[0], x : x + one.shape[1]] = one
    return canvas
