"""Clips as arrays of frames: animated pictures, folders of frames, arrays of `.npz` files.

An address is `clip.gif`, `clip.webp`, `clip.png` (animated), `frames/` (pictures in the order of
their names), `clip.npz` (the array `frames`), `clips.npz#17` (of the array `clips`), a member of a
tar archive as `clips.tar#a.gif`, or a `data:` URL.
"""

import io
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.addresses import content, is_file, place_of
from regard.data.files.npz import arrays
from regard.data.formats.base import whole_number
from regard.data.images import images
from regard.data.images.images import PictureError, PictureSource
from regard.data.text.normal_form import composed
from regard.errors import RequestError

__all__ = ["ClipSource", "frames", "gif", "located", "spread"]

Pixels = NDArray[np.uint8]

FORMATS = ("GIF", "WEBP", "PNG", "JPEG")
"""What is read, by Pillow's names."""
ENDINGS = (".png", ".jpg", ".jpeg", ".webp")
"""Of the pictures in a folder of frames."""
LARGEST = 1 << 27
"""Pixels of all frames together; larger clips are refused before they are decoded."""
LONGEST = 100
"""Times that a frame counts which is seen for so much longer than the shortest."""


@dataclass(frozen=True)
class ClipSource:
    """Where a clip is.

    Args:
        name: the address as it was written.
        place: the file, the folder, or a `data:` URL.
        inside: the member of an archive, or the place in an array; "": the file itself.
        count: how many frames it has.
        scene: which of the clips that are made of its one picture; None: it is used as it is.
    """

    name: str
    place: str
    inside: str = ""
    count: int = 0
    scene: int | None = None

    def __str__(self) -> str:
        return self.name


def located(address: str, file: str = "") -> ClipSource:
    """Where the clip of an address is.

    Args:
        address: see the module.
        file: the data file that it stands in; see `addresses.place_of`.

    Raises:
        PictureError: there is no such file.
    """
    try:
        return ClipSource(address, *place_of(address, file, folders=True))
    except RequestError as error:
        raise PictureError("no such clip", str(error)) from None


def frames(clip: ClipSource, channels: int) -> list[Pixels]:
    """A clip decoded, every frame of its own size; a still picture is a clip of one frame.

    Args:
        clip: where it is.
        channels: 1 for gray, 3 for red, green and blue.

    Returns:
        Frames (height, width, channels).

    Raises:
        PictureError: it is empty, damaged, too large, or no clip.
    """
    if is_file(clip.place) and Path(clip.place).is_dir():
        names = sorted(
            (p for p in Path(clip.place).iterdir() if p.suffix.lower() in ENDINGS), key=_numbered
        )
        if not names:
            said = f"{clip.place} has no {', '.join(ENDINGS)}"
            raise PictureError("no frames", said)
        return [images.pixels(PictureSource(p.name, str(p)), channels) for p in names]
    if is_file(clip.place, ".npz"):
        return _of_array(clip, channels)
    try:
        return _animated(content(clip.place, clip.inside), clip, channels)
    except RequestError as error:
        raise PictureError("no such clip", str(error)) from None


def spread(count: int, most: int) -> list[int]:
    """Which of `count` frames are read: at most `most`, equally far from each other.

    Example:
        >>> spread(9, 5)
        [0, 2, 4, 6, 8]
    """
    return [int(i) for i in np.linspace(0, count - 1, min(count, most)).round()]


def gif(values: Pixels, milliseconds: int = 100) -> bytes:
    """The bytes of an animated GIF of frames (T, height, width, channels).

    Args:
        milliseconds: that a frame is seen.
    """
    from PIL import Image

    each = [Image.fromarray(v[..., 0] if v.shape[-1] == 1 else v) for v in values]
    buffer = io.BytesIO()
    each[0].save(
        buffer, "GIF", save_all=True, append_images=each[1:], duration=milliseconds, loop=0
    )
    return buffer.getvalue()


def _numbered(path: Path) -> list[Any]:
    """Names in the order of the numbers in them: 2.png before 10.png."""
    parts = re.split(r"(\d+)", composed(path.name))
    return [(int(p), "") if p.isdecimal() else (0, p) for p in parts]


def _animated(found: bytes, clip: ClipSource, channels: int) -> list[Pixels]:
    image = images.pillow("clips")
    from PIL import ImageSequence

    if not found:
        raise PictureError("empty clip", "0 bytes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a size between Pillow's limit and ours
            opened = image.open(io.BytesIO(found), formats=FORMATS)
        wide, high = opened.size
        count = getattr(opened, "n_frames", 1)
        if count == 1:
            return [images.pixels(PictureSource(clip.name, clip.place, clip.inside), channels)]
        if wide * high * count > LARGEST:
            raise image.DecompressionBombError
        made, shown = list[Pixels](), list[float]()
        for frame in ImageSequence.Iterator(opened):
            made.append(images.converted(frame, channels))
            shown.append(float(frame.info.get("duration", 0)))
        return _timed(made, shown)
    except PictureError:
        raise
    except image.DecompressionBombError:
        raise PictureError("clip too large", f"more than {LARGEST:,} pixels") from None
    except image.UnidentifiedImageError:
        said = "an animated GIF, WebP or PNG was expected, a folder of frames, or an .npz file"
        raise PictureError("no clip", said) from None
    except Exception as error:  # of a damaged file Pillow raises nearly anything
        raise PictureError("damaged clip", str(error) or type(error).__name__) from None


def _timed(made: list[Pixels], shown: list[float]) -> list[Pixels]:
    """Frames as often as they are seen: writers put equal ones together, for a longer time."""
    unit = min((s for s in shown if s > 0), default=1.0)
    times = [min(max(round(s / unit), 1), LONGEST) for s in shown]
    return [frame for frame, often in zip(made, times, strict=True) for _ in range(often)]


def _of_array(clip: ClipSource, channels: int) -> list[Pixels]:
    """An array `frames` of bytes (T, H, W) or (T, H, W, channels), or one of an array `clips`."""
    found = arrays(clip.place)
    array = found.get("clips" if clip.inside else "frames")
    if clip.inside and array is not None:
        place = whole_number(clip.inside)
        if place is None or place >= len(array):
            said = f"a number below {len(array):,} was expected behind #, got {clip.inside!r}"
            raise PictureError("no such clip", said)
        array = array[place]
    if array is None or array.ndim not in (3, 4) or array.dtype != np.uint8 or not len(array):
        there = ", ".join(f"{n}: {a.dtype} {a.shape}" for n, a in found.items())
        said = (
            "an array 'frames' of bytes (frames, H, W) or (frames, H, W, 3) was expected, or with "
            f"#NUMBER an array 'clips' of such, there is {there}"
        )
        raise PictureError("no array of frames", said)
    array = array[..., None] if array.ndim == 3 else array
    if array.shape[-1] not in (1, 3):
        raise PictureError("no array of frames", f"{array.shape[-1]} channels, 1 or 3 expected")
    return list(images.colored(array, channels))
