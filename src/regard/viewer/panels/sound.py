"""Panels of a spectrogram under its weights."""

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from regard.viewer.content import Shown
from regard.viewer.figure.sheet import EDGE, SOFT, _width, blues, paper, write
from regard.viewer.palette import MARK
from regard.viewer.panels.kind import MapKind
from regard.viewer.terminal.matrix import clean
from regard.viewer.terminal.surface import (
    TerminalSurface,
    chosen_rows,
    right,
    titled,
)
from regard.views import MapPanel

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from regard.viewer.panels.image import _photo

__all__ = ["KINDS", "sound", "terminal_sound"]


def terminal_sound(place: TerminalSurface, panel: MapPanel) -> Text:
    """A line of frames for each row, neighbors' largest where they are too many."""
    found = place.shown(panel)
    left = max((cell_len(clean(w)) for w in found.rows), default=0)
    frames = found.weights[0].shape[1]
    count = max(min(frames, place.width - left - 2), 1)
    parts = np.array_split(np.arange(frames), count)
    lines = []
    for r in chosen_rows(found, panel):
        cells = [float(found.weights[0][r][part].max()) for part in parts]
        name = right(found.rows[r], left)
        lines.append(Text(f"{name}  ").append_text(place.cells(cells, found.top)))
    seconds = found.axis.seconds
    end = f"{frames * seconds:.1f} s" if seconds else f"{frames}"
    lines.append(Text(f"{'':{left}}  0{end:>{max(count - 1, 1)}}"))
    return titled(place, panel, lines)


def sound(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """Frames of sound below their spectrogram, and the path of the largest weights."""
    photo, weights = _photo(shown), shown.weights[0]
    left = max(_width(w, 8.0) for w in shown.rows) + 2 * EDGE
    above, step = 0.0 if photo is None else 0.9, 0.16
    high = step * len(shown.rows)
    made, axes = paper(width, above + EDGE + high + 0.3, title)
    right = width - EDGE - 0.1
    if photo is not None:
        axes.imshow(photo, extent=(left, right, above, 0.02), aspect="auto")
    y, x = above + EDGE, np.linspace(left, right, weights.shape[1] + 1)
    axes.pcolormesh(
        x,
        y + step * np.arange(len(shown.rows) + 1),
        weights,
        vmin=0,
        vmax=shown.top,
        cmap=blues(),
        rasterized=weights.size > 20_000,
    )
    best = weights.argmax(1)
    axes.plot(
        (x[best] + x[best + 1]) / 2,
        y + step * (np.arange(len(best)) + 0.5),
        color=MARK,
        linewidth=1,
    )
    for i, word in enumerate(shown.rows):
        style: dict[str, Any] = {"color": MARK} if i == row else {}
        write(axes, left - EDGE, y + step * (i + 0.5), word, ha="right", **style)
    long = weights.shape[1] * (shown.axis.seconds or 1)
    for part in np.linspace(0, 1, 5):
        said = (
            f"{part * long:.{1 if long >= 2 else 2}f} s"
            if shown.axis.seconds
            else f"{part * long:.0f}"
        )
        write(
            axes, left + part * (right - left), y + high + 0.12, said, 6.0, ha="center", color=SOFT
        )
    axes.set(xlim=(0, width), ylim=(above + EDGE + high + 0.3, axes.get_ylim()[1]))
    return made


KINDS = (MapKind(name="sound", terminal=terminal_sound, figure=sound),)
