"""Panels that compare two runs."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text

from regard.viewer.content import Shown
from regard.viewer.figure.matrix import PAGE
from regard.viewer.figure.sheet import _width
from regard.viewer.palette import MARK, top_of
from regard.viewer.panels.kind import MapKind
from regard.viewer.panels.matrix import terminal_matrix
from regard.viewer.terminal.surface import (
    TerminalSurface,
)
from regard.views import MapPanel

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from regard.viewer.figure.sheet import EDGE, SMALL, TEXT, paper, write
from regard.viewer.panels.matrix import cells

__all__ = ["KINDS", "compare", "terminal_compare"]


def terminal_compare(place: TerminalSurface, panel: MapPanel) -> Text:
    """Two maps, one below the other."""
    m, head = panel.other or (panel.map, 1)
    second = MapPanel("matrix", map=m, heads=() if head is None else (head,))
    first = replace(panel, kind="matrix", other=None)
    return Text("\n\n").join(
        [
            Text("A  ").append_text(terminal_matrix(place, first)),
            Text("B  ").append_text(terminal_matrix(place, second)),
        ]
    )


def compare(
    shown: Shown, width: float, row: int | None, title: str, *, other: Shown, values: bool = False
) -> "Figure":
    """Two side by side; where they are of one form, what the first has more of (blue) and less."""
    a, b = shown.weights[0], other.weights[0]
    panels = [(shown, a, f"A {shown.names[0]}"), (other, b, f"B {other.names[0]}")]
    if a.shape == b.shape:
        panels.append((shown, a - b, "A − B"))
    lefts = [max(_width(w, TEXT) for w in one.rows) + EDGE for one in (shown, other)]
    lefts = [lefts[0], lefts[1] if other.rows != shown.rows else 0.0, 0.0]
    above = max(_width(w, TEXT) for w in (*shown.columns, *other.columns)) + EDGE
    room = width - sum(lefts[: len(panels)]) - EDGE * (1 + 2 * len(panels))
    rows = max(len(a), len(b))
    cell = min(room / max(sum(p[1].shape[1] for p in panels), 1), 0.2)
    made, axes = paper(width, above + cell * rows + 0.3, title)
    size, x = min(TEXT, cell * 72 * 0.85), EDGE
    for left, (one, weights, name) in zip(lefts, panels, strict=False):
        limit = max(shown.top, other.top)
        if one is shown and weights is not a:
            limit = top_of([float(np.abs(weights).max(initial=0.0))])
        x += left
        cells(axes, weights, (x, above), cell, limit, values=values)
        wide = cell * weights.shape[1]
        write(
            axes,
            x,
            above + cell * len(weights) + 0.12,
            f"{name}, up to {limit:g}",
            SMALL,
            room=max(wide, 0.8),
        )
        for i, word in enumerate(one.columns):
            write(
                axes,
                x + (i + 0.5) * cell,
                above - 0.03,
                word,
                size,
                rotation=90,
                ha="center",
                va="bottom",
            )
        for i, word in enumerate(one.rows if left else []):
            mine: dict[str, Any] = {"color": MARK} if i == row else {}
            write(axes, x - 0.04, above + (i + 0.5) * cell, word, size, ha="right", **mine)
        x += wide + 2 * EDGE
    return made


KINDS = (MapKind(name="compare", terminal=terminal_compare, figure=compare, width=PAGE),)
