"""Panels of a table."""

from typing import TYPE_CHECKING

from regard.viewer.figure.sheet import EDGE, SMALL, SOFT, TEXT, _width, paper, write
from regard.viewer.palette import INK
from regard.views import TablePanel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

from rich.cells import cell_len
from rich.text import Text

from regard.viewer.panels.tree import _STEP
from regard.viewer.terminal.matrix import clean
from regard.viewer.terminal.surface import TerminalSurface

__all__ = ["table", "table_lines"]


def table(panel: TablePanel, width: float, title: str) -> "Figure":
    """Rows of text below their columns' names; the note at the foot."""
    lines = [panel.columns, *panel.cells]
    wide = [max(_width(row[c], TEXT) for row in lines) + 0.15 for c in range(len(panel.columns))]
    width = max(width, sum(wide) + 2 * EDGE)
    high = _STEP * len(lines) + 2 * EDGE
    made, axes = paper(width, high + (_STEP if panel.note else 0.0), title)
    for i, row in enumerate(lines):
        x = EDGE
        for cell, own in zip(row, wide, strict=True):
            write(axes, x, EDGE + (i + 0.5) * _STEP, cell, color=INK if i else SOFT)
            x += own
    y = EDGE + _STEP
    axes.plot([EDGE, EDGE + sum(wide)], [y, y], color=SOFT, linewidth=0.5)
    if panel.note:
        write(axes, EDGE, high + _STEP / 2, panel.note, SMALL, color=SOFT, room=width - 2 * EDGE)
    return made


def table_lines(place: TerminalSurface, panel: TablePanel) -> Text:
    """A table with aligned columns."""
    rows = [panel.columns, *panel.cells]
    wide = [max(cell_len(row[c]) for row in rows) for c in range(len(panel.columns))]
    lines = [Text(panel.title)] if panel.title else []
    for i, row in enumerate(rows):
        cells = (clean(c) + " " * (w - cell_len(c)) for c, w in zip(row, wide, strict=True))
        lines.append(Text("  ".join(cells).rstrip(), "" if i else "bold"))
    return Text("\n").join(lines)
