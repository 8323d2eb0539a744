"""Bars, tables, trees and neighborhoods on paper."""

from typing import TYPE_CHECKING

from rich.text import Text

from regard.viewer.figure.sheet import EDGE, SMALL, SOFT, TEXT, _width, paper, shaded, write
from regard.viewer.palette import GRID
from regard.viewer.panels.tree import _STEP
from regard.viewer.terminal.matrix import clean
from regard.viewer.terminal.surface import BAR, TerminalSurface
from regard.views import ValuesPanel
from regard.views.numbers import decimal, significant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["bars", "bars_lines"]


def bars(panel: ValuesPanel, width: float, title: str) -> "Figure":
    """A bar and its number behind each label."""
    from matplotlib.patches import Rectangle

    count = len(panel.labels)
    left = min(max((_width(w, TEXT) for w in panel.labels), default=0.0), 0.45 * width) + 2 * EDGE
    number = 0.4
    room = width - left - number - EDGE
    top = max(max((abs(v) for v in panel.values), default=0.0), 1e-12)
    top = 1.0 if all(0 <= v <= 1 for v in panel.values) else top
    made, axes = paper(width, _STEP * max(count, 1) + 2 * EDGE, title)
    for i, (label, value) in enumerate(zip(panel.labels, panel.values, strict=True)):
        y = EDGE + (i + 0.5) * _STEP
        write(axes, left - EDGE, y, label, ha="right", room=left - 2 * EDGE)
        axes.add_patch(Rectangle((left, y - 0.06), room, 0.12, color=GRID, lw=0))
        wide = room * abs(value) / top
        axes.add_patch(Rectangle((left, y - 0.06), wide, 0.12, color=shaded(0.8), lw=0))
        write(axes, left + room + EDGE, y, significant(value), SMALL, color=SOFT)
    return made


def bars_lines(place: TerminalSurface, panel: ValuesPanel) -> Text:
    """A bar and a number per value."""
    top = max((abs(v) for v in panel.values), default=0.0)
    top = 1.0 if 0 <= top <= 1 else top
    lines = [Text(panel.title)] if panel.title else []
    for label, value in zip(panel.labels, panel.values, strict=True):
        line = Text(f"{decimal(value, 3):>6}  ")
        long = round(abs(value) / top * BAR)
        lines.append(
            line.append("█" * long + "░" * (BAR - long), "blue").append(f"  {clean(label)}")
        )
    return Text("\n").join(lines)
