"""A picture in a terminal: two pixels a character, veiled where nothing looks, with a trail."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.style import Style
from rich.text import Text

from regard.viewer.terminal import SHADES

__all__ = ["photo_of", "picture_lines"]

WIDEST = 40
"""Characters of a picture."""
VEIL = 0.72
"""How much of the light is taken away where nothing looks."""


def photo_of(content: bytes | None) -> NDArray[np.uint8] | None:
    """The pixels (height, width, 3) of a picture file; None without one, or without Pillow."""
    if content is None:
        return None
    try:
        from PIL import Image
    except ImportError:
        return None
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def picture_lines(
    photo: NDArray[np.uint8],
    look: NDArray[Any],
    trail: Sequence[tuple[float, float]],
    width: int,
    colour: bool,
) -> list[Text]:
    """The lines of a picture.

    Args:
        photo: (height, width, 3).
        look: weights of a grid of regions.
        trail: places (x, y) from 0 to 1, which get their numbers.
        width: the most characters of a line.
        colour: two pixels a character; else a character for each two rows by its brightness, and
            points for what is bright and not looked at.
    """
    look = look.astype(np.float64)
    wide = max(min(width, WIDEST, photo.shape[1]), 1)
    high = max(round(photo.shape[0] / photo.shape[1] * wide / 2), 1) * 2
    pixels = _sampled(photo.astype(np.float64), high, wide)
    part = _sampled((look / max(float(look.max(initial=0.0)), 1e-9))[..., None], high, wide)[..., 0]
    points = {
        (min(int(y * high / 2), high // 2 - 1), min(int(x * wide), wide - 1)): number
        for number, (x, y) in enumerate(trail, 1)
    }
    lit = pixels * (1 - VEIL * (1 - np.clip(part, 0, 1)))[..., None]
    lines = []
    for row in range(high // 2):
        line = Text()
        for column in range(wide):
            number = points.get((row, column))
            upper, lower = lit[2 * row, column], lit[2 * row + 1, column]
            if colour:
                style = Style(color=_color(upper), bgcolor=_color(lower))
                mark = Style(color="white", bgcolor="red", bold=True)
                line.append(*(("▀", style) if number is None else (_digit(number), mark)))
            elif number is not None:
                line.append(_digit(number))
            else:
                bright = float(pixels[2 * row : 2 * row + 2, column].mean()) / 255
                seen = float(part[2 * row : 2 * row + 2, column].max()) >= 0.5
                shade = SHADES[min(int(bright * len(SHADES)), len(SHADES) - 1)]
                line.append(shade if seen else "·" if bright > 0.4 else " ")
        lines.append(line)
    return lines


def _sampled(values: NDArray[np.float64], high: int, wide: int) -> NDArray[np.float64]:
    """The nearest of the values at each place of a grid."""
    rows = (np.arange(high) * values.shape[0] // high).clip(0, values.shape[0] - 1)
    columns = (np.arange(wide) * values.shape[1] // wide).clip(0, values.shape[1] - 1)
    found: NDArray[np.float64] = values[rows][:, columns]
    return found


def _color(rgb: NDArray[np.float64]) -> Color:
    return Color.from_rgb(*(float(round(v)) for v in rgb))


def _digit(number: int) -> str:
    return str(number % 10)
