"""Pictures as arrays, by their addresses: files, members of tar archives, arrays of `.npz` files.

An address is `photo.png`, `photos.tar#cat/1.png`, `digits.npz#17` (the array `images`),
`digits.npz#drawings/17`, or a `data:` URL with the bytes of a picture.
"""

import io
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.addresses import FileError, content, is_file, place_of
from regard.data.files.npz import IMAGES, arrays
from regard.data.formats.base import whole_number
from regard.errors import RequestError
from regard.system.extras import install

__all__ = [
    "FORMATS",
    "PictureError",
    "PictureSource",
    "colored",
    "converted",
    "located",
    "pillow",
    "pixels",
    "png",
    "resized",
]

Pixels = NDArray[np.uint8]

FORMATS = ("PNG", "JPEG", "WEBP")
"""What is read, by Pillow's names."""
LARGEST = 1 << 26
"""Pixels of a picture; larger ones are refused before they are decoded."""
SMALLEST = 2
"""Pixels that a picture has each way."""


class PictureError(FileError):
    """What stands at an address is no picture that can be used."""


@dataclass(frozen=True)
class PictureSource:
    """Where a picture is.

    Args:
        name: the address as it was written.
        place: the file, or a `data:` URL.
        inside: the member of an archive, or the place in an array; "": the file itself.
        scene: the number of the scene that it is laid in; None: it is used as it is.
    """

    name: str
    place: str
    inside: str = ""
    scene: int | None = None

    def __str__(self) -> str:
        return self.name


def located(address: str, file: str = "") -> PictureSource:
    """Where the picture of an address is.

    Args:
        address: see the module.
        file: the data file that it stands in: a path is one beside that file, or a member of the
            tar archive of that file's name. Not given: a path is looked up as data are.

    Raises:
        PictureError: there is no such file.
    """
    try:
        return PictureSource(address, *place_of(address, file))
    except RequestError as error:
        raise PictureError("no such picture", str(error)) from None


def pixels(picture: PictureSource, channels: int) -> Pixels:
    """A picture decoded.

    A palette, CMYK and 16 bits are converted; what is transparent becomes white; a photograph is
    turned as its camera says.

    Args:
        picture: where it is.
        channels: 1 for gray, 3 for red, green and blue.

    Returns:
        (height, width, channels)

    Raises:
        PictureError: it is empty, damaged, animated, too large, too small, or no picture.
    """
    if is_file(picture.place, ".npz"):
        found = colored(_of_array(picture), channels)
    else:
        found = _decoded(_content(picture), channels)
    height, width = found.shape[:2]
    if min(height, width) < SMALLEST:
        raise PictureError(
            "picture too small", f"{width} × {height} pixels, at least {SMALLEST} each way"
        )
    return found


def png(values: Pixels) -> bytes:
    """The bytes of a PNG file of pixels (height, width, channels)."""
    buffer = io.BytesIO()
    pillow().fromarray(values[..., 0] if values.shape[-1] == 1 else values).save(buffer, "PNG")
    return buffer.getvalue()


def resized(one: Pixels, size: tuple[int, int]) -> Pixels:
    """Bilinear, as Pillow does it: where a picture becomes smaller, every pixel counts."""
    if one.shape[:2] == size:
        return one
    values = torch.from_numpy(one.transpose(2, 0, 1).astype(np.float32))[None]
    made = torch.nn.functional.interpolate(values, size, mode="bilinear", antialias=True)
    found = made[0].round().clamp(0, 255).to(torch.uint8)
    return np.ascontiguousarray(found.permute(1, 2, 0).numpy())


def pillow(what: str = "pictures") -> Any:
    """Pillow's module `Image`.

    Raises:
        RequestError: it is not installed, and `what` is read by it.
    """
    try:
        from PIL import Image
    except ImportError:
        raise RequestError(
            f"{what} are read by Pillow, which is not installed: {install('vision')}"
        ) from None
    return Image


def _content(picture: PictureSource) -> bytes:
    try:
        return content(picture.place, picture.inside)
    except RequestError as error:
        raise PictureError("no such picture", str(error)) from None


def _decoded(content: bytes, channels: int) -> Pixels:
    image = pillow()
    from PIL import ImageOps

    if not content:
        raise PictureError("empty picture", "0 bytes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a size between Pillow's limit and ours
            opened = image.open(io.BytesIO(content), formats=FORMATS)
        wide, high = opened.size
        if wide * high > LARGEST:
            raise image.DecompressionBombError
        frames = getattr(opened, "n_frames", 1)
        if frames > 1:
            raise PictureError("animated picture", f"{frames} frames, one expected")
        opened.load()
        return converted(ImageOps.exif_transpose(opened), channels)
    except PictureError:
        raise
    except image.DecompressionBombError:
        raise PictureError("picture too large", f"more than {LARGEST:,} pixels") from None
    except image.UnidentifiedImageError:
        said = "a PNG, JPEG or WebP file was expected"
        raise PictureError("no picture", said) from None
    except Exception as error:  # of a damaged file Pillow raises nearly anything
        raise PictureError("damaged picture", str(error) or type(error).__name__) from None


def converted(opened: Any, channels: int) -> Pixels:
    """Gray or RGB of eight bits, whatever Pillow's picture has; what is transparent is white."""
    if opened.mode.startswith("I") or opened.mode == "F":  # 16 bits: Pillow would cut them off
        gray = np.asarray(opened, np.float64) / 257
        return colored(np.clip(gray.round(), 0, 255).astype(np.uint8)[..., None], channels)
    if "A" in opened.mode or "transparency" in opened.info:
        over = opened.convert("RGBA")
        ground = pillow().new("RGBA", over.size, "white")
        opened = pillow().alpha_composite(ground, over)
    found = np.asarray(opened.convert("L" if channels == 1 else "RGB"))
    return found[..., None] if channels == 1 else found


def _of_array(picture: PictureSource) -> Pixels:
    """One picture of an array (N, H, W) or (N, H, W, channels) of bytes."""
    name, _, number = picture.inside.rpartition("/")
    found = arrays(picture.place)
    array = found.get(name or IMAGES)
    if array is None or array.ndim not in (3, 4) or array.dtype != np.uint8:
        there = ", ".join(f"{n}: {a.dtype} {a.shape}" for n, a in found.items()) or "nothing"
        said = (
            f"{name or IMAGES!r} of bytes (N, H, W) or (N, H, W, 3) was expected, there is {there}"
        )
        raise PictureError("no array of pictures", said)
    place = whole_number(number)
    if place is None or place >= len(array):
        said = f"a number below {len(array):,} was expected behind #, got {number!r}"
        raise PictureError("no such picture", said)
    one: Pixels = array[place]
    if one.ndim == 2:
        one = one[..., None]
    if one.shape[-1] not in (1, 3):
        raise PictureError("no array of pictures", f"{one.shape[-1]} channels, 1 or 3 expected")
    return one


def colored(values: Pixels, channels: int) -> Pixels:
    """Pixels with this many channels: gray as ITU-R 601 weighs the colors."""
    if values.shape[-1] == channels:
        return values
    if channels == 3:
        return np.repeat(values, 3, -1)
    gray = values.astype(np.float64) @ np.array([0.299, 0.587, 0.114])
    return np.asarray(gray.round(), np.uint8)[..., None]
