"""Panels of an image under its weights."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.style import Style
from rich.text import Text

from regard.errors import RequestError
from regard.viewer.content import Shown
from regard.viewer.figure.matrix import PAGE
from regard.viewer.figure.sheet import EDGE, blues, paper, write
from regard.viewer.palette import MARK
from regard.viewer.panels.kind import MapKind
from regard.viewer.terminal.matrix import SHADES, clean
from regard.viewer.terminal.surface import (
    TerminalSurface,
    chosen_rows,
    titled,
)
from regard.views import MapPanel

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from regard.viewer.panels.graph import CLOSE

__all__ = ["KINDS", "LEAST_WIDE", "image", "photo_of", "picture_lines", "terminal_image"]


LEAST_WIDE = 12
"""Characters for a picture and the words above it."""


def terminal_image(place: TerminalSurface, panel: MapPanel) -> Text:
    """For each row the picture, or a grid of cells as the regions lie."""
    found = place.shown(panel)
    grid = found.axis.grid
    if grid is None:
        raise RequestError("an image wants a grid of regions: Axis(..., grid=(rows, columns))")
    photo = photo_of(found.axis.image)
    blocks: list[list[Text]] = []
    trail = list(zip(found.extra.get("x", ()), found.extra.get("y", ()), strict=False))
    wide = 2 * grid[1]
    for r in chosen_rows(found, panel):
        look = found.weights[0][r].reshape(grid)
        if photo is None:
            lines = [place.cells(line, found.top, 2) for line in look]
        else:
            lines = picture_lines(photo, look, trail[: r + 1], place.width, place.colour)
            wide = max(len(lines[0]), LEAST_WIDE)
            lines = [line + Text(" " * (wide - len(line))) for line in lines]
        blocks.append([Text(f"{clean(found.rows[r])[:wide]:{wide}}"), *lines])
    across = max(place.width // (wide + 2), 1)
    made = []
    for start in range(0, len(blocks), across):
        rows = zip(*blocks[start : start + across], strict=True)
        made += [Text("  ").join(row) for row in rows]
    return titled(place, panel, made)


WIDEST = 40
"""Characters of a picture."""


STRIP = 2
"""A picture more than twice as wide as high, such as the frames of a clip, has fewer beside it."""


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


def image(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """An image for each word (or for one), veiled where it does not look; a glimpse's trail.

    Raises:
        RequestError: what is looked at has no grid.
    """
    grid = shown.axis.grid
    if grid is None:
        raise RequestError("an image wants a grid of regions: Axis(..., grid=(rows, columns))")
    photo = _photo(shown)
    ratio = grid[0] / grid[1] if photo is None else photo.shape[0] / photo.shape[1]
    some = range(len(shown.rows)) if row is None else [row]
    most = 6 if width > 4 else 3
    across = min(len(some), max(min(most, round(most * STRIP * ratio)), 1))
    wide = (width - EDGE) / across - EDGE
    high = wide * ratio
    down = -(-len(some) // across)
    made, axes = paper(width, down * (high + 0.24), title)
    trail = [np.array(shown.extra[k]) for k in ("x", "y") if k in shown.extra]
    for n, i in enumerate(some):
        x, y = EDGE + n % across * (wide + EDGE), n // across * (high + 0.24)
        box = (x, x + wide, y + 0.18 + high, y + 0.18)
        write(axes, x, y + 0.09, shown.rows[i], room=wide)
        look = shown.weights[0][i].reshape(grid)
        part = look / max(float(look.max()), 1e-9)
        smooth: dict[str, Any] = {"extent": box, "aspect": "auto"}
        if photo is None:
            axes.imshow(look, cmap=blues(), vmin=0, interpolation="nearest", **smooth)
        else:
            axes.imshow(photo, **smooth)
            veil = np.zeros((*grid, 4))
            veil[..., 3] = 0.72 * (1 - part)
            alike = grid == photo.shape[:2]  # a weight for each pixel
            exact = values or alike or grid[0] == 1  # frames of a clip have edges
            axes.imshow(veil, interpolation="nearest" if exact else "bilinear", **smooth)
        if photo is not None and grid == photo.shape[:2]:
            _frame(axes, look, box)
        if len(trail) == 2:
            px, py = x + trail[0][: i + 1] * wide, y + 0.18 + trail[1][: i + 1] * high
            axes.plot(px, py, color=MARK, linewidth=1)
            said: list[tuple[float, float]] = []  # no number lies on another; the last one is told
            for number, at in reversed(list(enumerate(zip(px, py, strict=True), 1))):
                axes.plot(*at, color=MARK, marker="o", markersize=5 if number <= i else 7)
                if all(np.hypot(at[0] - a, at[1] - b) > CLOSE for a, b in said):
                    write(
                        axes, at[0], at[1], str(number), 4.5, ha="center", color="white", zorder=4
                    )
                    said.append(at)
    axes.set(xlim=(0, width), ylim=(down * (high + 0.24), axes.get_ylim()[1]))
    return made


def _frame(axes: Any, look: NDArray[Any], box: tuple[float, float, float, float]) -> None:
    """A line around the pixels that are looked at."""
    from matplotlib.patches import Rectangle

    rows, columns = np.nonzero(look)
    if not len(rows) or len(rows) == look.size:  # nothing, or everything
        return
    (high, wide), (left, right, low, top) = look.shape, box
    across, down = (right - left) / wide, (low - top) / high
    corner = left + columns.min() * across, top + rows.min() * down
    size = (np.ptp(columns) + 1) * across, (np.ptp(rows) + 1) * down
    axes.add_patch(Rectangle(corner, *size, fill=False, color=MARK, linewidth=0.6))


def _photo(shown: Shown) -> NDArray[Any] | None:
    from matplotlib.image import imread
    from PIL import Image

    if shown.axis.image is None:
        return None
    if shown.axis.image[:4] == b"\x89PNG":
        found: NDArray[Any] = imread(io.BytesIO(shown.axis.image))
        return np.repeat(found[..., None], 3, -1) if found.ndim == 2 else found
    return np.asarray(Image.open(io.BytesIO(shown.axis.image)).convert("RGB"))


KINDS = (MapKind(name="image", terminal=terminal_image, figure=image, width=PAGE),)
