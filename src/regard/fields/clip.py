"""Clips: frames of each example, read when a batch has them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.addresses import address_of
from regard.data.images import images, video
from regard.data.images.images import PictureError, PictureSource
from regard.data.images.synthetic_video import Moving
from regard.data.images.video import ClipSource
from regard.errors import RequestError
from regard.fields.base import Field, Report
from regard.fields.file_cells import Cache
from regard.fields.image import FITS, ImageField
from regard.protocols import Inputs

__all__ = ["ClipColumn", "ClipField"]

Pixels = NDArray[np.uint8]

CACHED = 1 << 28
"""Bytes of frames that a column keeps; what is beyond is read or made again."""


class ClipColumn:
    """Clips that are decoded, or made, when a batch has them.

    Args:
        clips: where they are.
        field: says how they are read.
        shuffle: frames stand in an order that says nothing, the same at each reading.
        cache: clips that were decoded or made.
    """

    def __init__(
        self,
        clips: Sequence[ClipSource],
        field: "ClipField",
        shuffle: bool = False,
        cache: Cache | None = None,
    ) -> None:
        self.clips, self.field, self.shuffle = list(clips), field, shuffle
        self.cache = cache or Cache(field.room)

    def __len__(self) -> int:
        return len(self.clips)

    @property
    def addresses(self) -> list[str]:
        """Where each is, for who reads it by itself."""
        return [address_of(one) for one in self.clips]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Frames that are read of each clip."""
        return np.array([self.field.count(one) for one in self.clips], np.int64)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Each counts once."""
        return np.ones(len(self), np.int64)

    def take(self, indices: NDArray[np.int64]) -> "ClipColumn":
        """Some of the clips."""
        some = [self.clips[int(i)] for i in indices]
        return ClipColumn(some, self.field, self.shuffle, self.cache)

    def shuffled(self) -> "ClipColumn":
        """The same clips, the frames of each in an order that says nothing."""
        return ClipColumn(self.clips, self.field, True, self.cache)

    def pixels(self, index: int) -> Pixels:
        """The frames that are read of one clip, before their numbers are scaled: (T, H, W, C)."""
        clip = self.clips[index]
        made = self.cache.get(clip, self.field.fitted_frames)
        if self.shuffle:
            seed = [crc32(clip.name.encode()), clip.scene or 0]
            made = made[np.random.default_rng(seed).permutation(len(made))]
        return made

    def collate(self, indices: NDArray[np.int64]) -> Inputs:
        """Clips (B, T, C, H, W) float32, zeros behind the end, and how many frames."""
        field, each = self.field, [self.pixels(int(i)) for i in indices]
        scaled = [(e.astype(np.float32) / 255 - field.mean) / field.deviation for e in each]
        tensors = [torch.from_numpy(np.ascontiguousarray(s.transpose(0, 3, 1, 2))) for s in scaled]
        lengths = torch.tensor([len(one) for one in each])
        return Inputs(torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True), lengths)


class ClipField(ImageField):
    """A clip: an animated picture, a folder of frames, or an array of an `.npz` file.

    A batch has (B, T, channels, height, width) float32, and how many frames are real.

    Args:
        size, channels, fit, normalize: of each frame, as `ImageField` has them.
        frames: at most this many are read, equally far from each other.
        scene: how clips are made of the still pictures of data; a clip that a user gives is read as
            it is.
        target, of: see `Field`.
    """

    kind: ClassVar[str] = "clip"
    room = CACHED

    def __init__(
        self,
        size: int | Sequence[int] = 64,
        channels: int = 3,
        *,
        frames: int = 26,
        fit: str = "crop",
        normalize: bool = True,
        moving: Moving | None = None,
        target: bool = False,
        of: str | None = None,
    ) -> None:
        size = size if moving is None else moving.size
        super().__init__(size, channels, fit=fit, normalize=normalize, target=target, of=of)
        if frames < 2:
            raise RequestError(f"frames: expected 2 or more, got {frames}")
        self.frames, self.moving = frames, moving

    def found(self, address: str) -> ClipSource:  # type: ignore[override]
        """Where the clip of an address is; it is decoded once, to know that it can be."""
        found = video.located(address, self._file)
        count = len(video.frames(found, self.channels))
        if count < 2 and (self.moving is None or not self._file):
            raise PictureError("no clip", "1 frame, 2 or more expected")
        return replace(found, count=count)

    def count(self, clip: ClipSource) -> int:
        """How many frames are read of a clip."""
        if self.moving is not None and clip.count == 1:
            return self.moving.frames
        return min(clip.count, self.frames)

    def fitted_frames(self, clip: ClipSource) -> Pixels:
        """The frames that are read, at the size that is read: (T, H, W, C)."""
        if self.moving is not None and clip.count == 1:
            source = PictureSource(clip.name, clip.place, clip.inside)
            still = images.pixels(source, self.channels)
            return self.moving.clip(still, clip.name, clip.scene or 0)
        every = video.frames(clip, self.channels)
        return np.stack(
            [FITS[self.fit](every[i], self.size) for i in video.spread(len(every), self.frames)]
        )

    def encode(  # type: ignore[override]
        self,
        values: Sequence[ClipSource],
        report: Report,
        fields: Mapping[str, Field],
        rows: Any = None,
    ) -> ClipColumn:
        """The clips, not yet read."""
        return ClipColumn(values, self)
