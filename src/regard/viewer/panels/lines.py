"""Panels of weights as lines between tokens."""

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from regard.errors import RequestError
from regard.viewer.content import Shown
from regard.viewer.figure.sheet import _width
from regard.viewer.palette import MARK
from regard.viewer.panels.kind import MapKind
from regard.viewer.terminal.matrix import clean
from regard.viewer.terminal.surface import (
    TerminalSurface,
    chosen_rows,
    largest,
    titled,
)
from regard.views import MapPanel
from regard.views.numbers import decimal

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from regard.viewer.figure.sheet import EDGE, TEXT, _legend, colour_of, paper, write

__all__ = ["KINDS", "LEAST", "arcs", "lines", "terminal_lines"]


LEAST = 0.03
"""Weights below are not named in a line."""


def terminal_lines(place: TerminalSurface, panel: MapPanel) -> Text:
    """For each row the places it looks at most."""
    found = place.shown(panel)
    left = max((cell_len(clean(w)) for w in found.rows), default=0)
    lines: list[Text] = []
    for name, weights in zip(found.names, found.weights, strict=True):
        if len(found.names) > 1:
            lines.append(Text(name, "bold"))
        for r in chosen_rows(found, panel):
            line = Text(" " * (left - cell_len(clean(found.rows[r]))) + clean(found.rows[r]) + " →")
            for c in largest(weights[r], LEAST):
                line.append(f" {clean(found.columns[c])} ").append_text(
                    place.number(float(weights[r, c]), found.top, 2)
                )
            lines.append(line)
    return titled(place, panel, lines)


def lines(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """Lines between two texts, heads in colours."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    count = max(len(shown.rows), len(shown.columns), 1)
    step, legend = 0.15, 0.18 if len(shown.weights) > 1 else 0.0
    made, axes = paper(width, count * step + 2 * EDGE + legend, title)
    most = 0.32 * width
    left = min(max((_width(w, TEXT) for w in shown.rows), default=0.0), most) + EDGE
    right = width - min(max((_width(w, TEXT) for w in shown.columns), default=0.0), most) - EDGE
    y = EDGE + (np.arange(count) + 0.5) * step
    for k, weights in enumerate(shown.weights):
        some = range(len(shown.rows)) if row is None else [row]
        pairs = [(r, c) for r in some for c in np.flatnonzero(np.abs(weights[r]) > 0.03)]
        strength = np.array([min(abs(float(weights[p])) / shown.top, 1.0) for p in pairs])
        shift = (k - (len(shown.weights) - 1) / 2) * 0.012
        axes.add_collection(
            LineCollection(
                [[(left + 0.06, y[r] + shift), (right - 0.06, y[c] + shift)] for r, c in pairs],
                colors=[to_rgba(colour_of(shown, k), v) for v in strength],
                linewidths=0.3 + 2.2 * strength,
                capstyle="round",
            )
        )
        if row is not None and values:
            for r, c in pairs[: 3 * count]:
                write(axes, right - 0.08, y[c], decimal(weights[r, c]), 5.0, ha="right")
    for i, word in enumerate(shown.rows):
        mine: dict[str, Any] = {"color": MARK, "weight": "bold"} if i == row else {}
        write(axes, left, y[i], word, room=most, ha="right", **mine)
    for i, word in enumerate(shown.columns):
        write(axes, right, y[i], word, room=most)
    _legend(axes, shown, count * step + 2 * EDGE + legend / 2 - 0.03)
    return made


def arcs(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """Arcs over one text: above it looks ahead, below it looks back.

    Raises:
        RequestError: rows and columns are not the same places.
    """
    from matplotlib.patches import Arc

    if not shown.own:
        raise RequestError("arcs are of a text that looks at itself: choose a self-attention")
    count = max(len(shown.columns), 1)
    step = (width - 2 * EDGE) / count
    size = min(TEXT, step * 72 * 0.95)
    upright = max((_width(w, size) for w in shown.columns), default=0.0) < step * 0.95
    band = 0.2 if upright else max(_width(w, size) for w in shown.columns) + 0.1
    reach = min(0.32 * width, 1.1)
    legend = 0.18 if len(shown.weights) > 1 else 0.0
    made, axes = paper(width, 2 * reach + band + legend, title)
    x = EDGE + (np.arange(count) + 0.5) * step
    for k, weights in enumerate(shown.weights):
        for r in range(count) if row is None else [row]:
            for c in np.flatnonzero(np.abs(weights[r]) > 0.05):
                if r == c:
                    continue
                strength = min(abs(float(weights[r, c])) / shown.top, 1.0)
                ahead, span = r < c, abs(x[c] - x[r])
                base = reach if ahead else reach + band
                axes.add_patch(
                    Arc(
                        ((x[r] + x[c]) / 2, base),
                        span,
                        2 * min(span / 2, reach * 0.97),
                        theta1=180 if ahead else 0,
                        theta2=360 if ahead else 180,
                        color=colour_of(shown, k),
                        alpha=strength,
                        linewidth=0.3 + 2 * strength,
                    )
                )
    for i, word in enumerate(shown.columns):
        mine: dict[str, Any] = {"color": MARK, "weight": "bold"} if i == row else {}
        turn = 0 if upright else 90
        write(axes, x[i], reach + band / 2, word, size, ha="center", rotation=turn, **mine)
    _legend(axes, shown, 2 * reach + band + legend / 2)
    return made


KINDS = (
    MapKind(name="lines", terminal=terminal_lines, figure=lines),
    MapKind(name="arcs", terminal=terminal_lines, figure=arcs),
)
