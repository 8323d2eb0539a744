"""Images, sound, graphs, pointers and features on paper."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from rich.text import Text

from regard.viewer.content import Shown
from regard.viewer.figure.sheet import EDGE, SMALL, SOFT, _width, blues, paper, write
from regard.viewer.palette import MARK
from regard.viewer.panels.kind import MapKind
from regard.viewer.terminal.matrix import clean, draw
from regard.viewer.terminal.surface import (
    TerminalSurface,
)
from regard.views import MapPanel
from regard.views.picture import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BANDS", "KINDS", "features", "terminal_features"]


def features(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """A row's weights for each feature, from top to bottom."""
    at = shown.widest if row is None else row
    strip = np.stack([w[at] for w in shown.weights])  # (features, places)
    above = max(_width(w, 8.0) for w in shown.columns) + EDGE
    high = float(np.clip(0.03 * len(strip), 0.8, 4))
    made, axes = paper(width, above + high + 0.25, title)
    x = np.linspace(EDGE, width - EDGE, strip.shape[1] + 1)
    axes.pcolormesh(
        x,
        above + np.linspace(0, high, len(strip) + 1),
        strip,
        vmin=0,
        vmax=shown.top,
        cmap=blues(),
        rasterized=strip.size > 20_000,
    )
    for i, word in enumerate(shown.columns):
        style: dict[str, Any] = {"color": MARK} if i == at and shown.own else {}
        write(
            axes,
            (x[i] + x[i + 1]) / 2,
            above - 0.03,
            word,
            rotation=90,
            ha="center",
            va="bottom",
            **style,
        )
    told = f"“{shown.rows[at]}”, {len(strip)} features; white 0, dark {shown.top:g}"
    write(axes, EDGE, above + high + 0.12, told, SMALL, color=SOFT, room=width - 2 * EDGE)
    return made


BANDS = 24
"""Lines that a strip of features has at most."""


def terminal_features(place: TerminalSurface, panel: MapPanel) -> Text:
    """One row's weights: a line for each feature, or for a band of them their largest."""
    one = place.view.maps[panel.map]
    found = place.shown(panel, heads=range(1, one.shape[0] + 1))
    at = found.widest if panel.row is None else panel.row - 1
    strip = np.stack([w[at] for w in found.weights])
    bands = np.array_split(np.arange(len(strip)), min(len(strip), BANDS))
    picture = Picture(
        [f"{b[0] + 1}" if len(b) == 1 else f"{b[0] + 1}–{b[-1] + 1}" for b in bands],
        found.columns,
        torch.from_numpy(np.stack([strip[b].max(0) for b in bands])),
    )
    title = f"“{clean(found.rows[at])}”, {len(strip)} features"
    return draw(picture, width=place.width, colour=place.colour, values=place.values, title=title)


KINDS = (MapKind(name="features", terminal=terminal_features, figure=features),)
