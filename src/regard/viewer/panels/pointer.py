"""Panels of a pointer-generator: copied or generated."""

from typing import TYPE_CHECKING

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from regard.viewer.content import Shown
from regard.viewer.figure.sheet import EDGE, SMALL, SOFT, _width, paper, shaded, write
from regard.viewer.palette import INK, MARK
from regard.viewer.panels.kind import MapKind
from regard.viewer.terminal.matrix import clean
from regard.viewer.terminal.surface import (
    BAR,
    TerminalSurface,
    chosen_rows,
    largest,
    right,
    titled,
)
from regard.views import MapPanel
from regard.views.numbers import decimal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COPIED", "KINDS", "pointer", "terminal_pointer"]


def terminal_pointer(place: TerminalSurface, panel: MapPanel) -> Text:
    """For each row how much is made and how much is copied, and from where."""
    found = place.shown(panel)
    made = found.extra.get("generate")
    left = max((cell_len(clean(w)) for w in found.rows), default=0)
    head = "made █ copied ░" if made else "copied ░"
    lines = [Text(f"{'':{left}}  {head:{BAR}}  points at")]
    for r in chosen_rows(found, panel):
        long = round((made[r] if made else 0.0) * BAR)
        line = Text(f"{right(found.rows[r], left)}  {'█' * long}{'░' * (BAR - long)} ")
        for c in largest(found.weights[0][r], 0.01):
            line.append(f" {clean(found.columns[c])} ").append_text(
                place.number(float(found.weights[0][r, c]), found.top, 2)
            )
        lines.append(line)
    return titled(place, panel, lines)


COPIED = "#e69f00"


def pointer(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """For each output word how much is made and how much is copied, and from where."""
    from matplotlib.patches import Rectangle

    made_up = shown.extra.get("generate")
    step = 0.19
    left = max(*(_width(w, 8.0) for w in shown.rows), _width("output", SMALL)) + 2 * EDGE
    bar = 0.3 * width
    made, axes = paper(width, step * (len(shown.rows) + 1) + EDGE, title)
    write(axes, EDGE, step / 2, "output", SMALL, color=SOFT)
    write(axes, left + bar + 0.1, step / 2, "points at", SMALL, color=SOFT)
    x = left
    for name, colour in (*((("made", shaded(0.8)),) if made_up else ()), ("copied", COPIED)):
        axes.add_patch(Rectangle((x, step / 2 - 0.04), 0.08, 0.08, color=colour, lw=0))
        write(axes, x + 0.12, step / 2, name, SMALL, color=SOFT)
        x += 0.2 + _width(name, SMALL)
    for i, word in enumerate(shown.rows):
        y = step * (i + 1.5)
        share = made_up[i] if made_up else 0.0
        write(axes, EDGE, y, word, color=MARK if i == row else INK)
        axes.add_patch(Rectangle((left, y - 0.06), bar * share, 0.12, color=shaded(0.8), lw=0))
        axes.add_patch(
            Rectangle((left + bar * share, y - 0.06), bar * (1 - share), 0.12, color=COPIED, lw=0)
        )
        weights = shown.weights[0][i]
        best = [c for c in np.argsort(-weights, kind="stable")[:3] if weights[c] > 0.01]
        told = " · ".join(f"{shown.columns[c]} {decimal(weights[c])}" for c in best)
        x = left + bar + 0.1
        write(axes, x, y, told, SMALL, room=width - x - EDGE)
    return made


KINDS = (MapKind(name="pointer", terminal=terminal_pointer, figure=pointer),)
