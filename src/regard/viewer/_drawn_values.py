"""Bars, tables, trees and neighborhoods on paper."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.viewer._drawn import EDGE, SMALL, SOFT, TEXT, paper, shaded, write
from regard.viewer._page import _width
from regard.viewer._shown import neighbors_of
from regard.viewer.palette import GRID, INK, MARK, ink_on, shade, top_of
from regard.views import MapPanel, TablePanel, TreeNode, TreePanel, ValuesPanel, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["bars", "neighbors", "table", "tree"]

MOST = 40
"""Neighbors that a circle has room for."""
_STEP = 0.19  # inches from line to line


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
        write(axes, left + room + EDGE, y, f"{value:.3g}".replace("-", "−"), SMALL, color=SOFT)
    return made


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


def tree(panel: TreePanel, width: float, title: str) -> "Figure":
    """Leaves side by side at the foot, each node above the middle of what hangs from it."""
    places: list[tuple[str, float, int]] = []
    lines: list[tuple[float, int, float, int]] = []
    reach = EDGE
    deepest = 0

    def put(node: TreeNode, depth: int) -> float:
        nonlocal reach, deepest
        deepest = max(deepest, depth)
        if not node.children:
            own = _width(node.label, TEXT) + 0.12
            x = reach + own / 2
            reach += own
        else:
            below = [put(child, depth + 1) for child in node.children]
            x = (below[0] + below[-1]) / 2
            lines.extend((x, depth, under, depth + 1) for under in below)
        places.append((node.label, x, depth))
        return x

    put(panel.root, 0)
    step = 0.34
    scale = min(1.0, max(width, 6.9) / (reach + EDGE))  # at most as wide as a page
    wide = max(width, (reach + EDGE) * scale)
    made, axes = paper(wide, step * (deepest + 1), title)
    for x1, d1, x2, d2 in lines:
        y1, y2 = step * (d1 + 0.5) + 0.08, step * (d2 + 0.5) - 0.08
        axes.plot([x1 * scale, x2 * scale], [y1, y2], color=SOFT, linewidth=0.6)
    for label, x, depth in places:
        write(axes, x * scale, step * (depth + 0.5), label, TEXT * scale, ha="center")
    return made


def neighbors(
    view: View, panels: Sequence[tuple[str, MapPanel]], width: float | None, title: str
) -> "Figure":
    """A row for each layer: the mean and each head, lines as wide as their weights."""
    from matplotlib.figure import Figure

    told = [(name, *neighbors_of(view, panel)) for name, panel in panels]
    across = max(len(rows[0][1]) if rows else 1 for _, _, rows in told)
    inches = width or max(3.0, 1.5 * across)
    made = Figure(
        figsize=(inches, max(inches / across, 1.5) * len(told) + 0.4), layout="constrained"
    )
    grid = made.subplots(len(told), across, squeeze=False)
    for (name, node, rows), places in zip(told, grid, strict=True):
        for head, axes in enumerate(places):
            axes.set_axis_off()
            if rows and head < len(rows[0][1]):
                own = [(label, values[head]) for label, values in rows[:MOST]]
                _circle(axes, node, own, f"head {head}" if head else name.replace(" (", "\n("))
    if title:
        made.suptitle(title, fontsize=TEXT + 1, color=INK, parse_math=False)
    return made


def _circle(axes: "Axes", node: str, rows: Sequence[tuple[str, float]], name: str) -> None:
    """A node in the middle of its neighbors."""
    top = top_of([weight for _, weight in rows])
    own = dict(rows).get("itself", 0.0)
    others = sorted((label, weight) for label, weight in rows if label != "itself")
    tiny: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL, "parse_math": False}
    for i, (other, weight) in enumerate(others):
        angle = np.pi / 2 - 2 * np.pi * i / max(len(others), 1)
        x, y = np.cos(angle), np.sin(angle)
        colour = tuple(c / 255 for c in shade(0.25 * top + 0.75 * weight, top))
        axes.plot([0, x], [0, y], color=colour, linewidth=0.4 + 6 * weight / top, zorder=1)
        axes.text(1.22 * x, 1.22 * y, other, color=INK, **tiny)
    middle = tuple(c / 255 for c in shade(own, top))
    axes.scatter([0], [0], s=260, color=[middle], edgecolors=MARK, zorder=2)
    axes.text(0, 0, node, color=ink_on(own, top), **tiny)
    axes.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal")
    axes.set_title(name, fontsize=TEXT, color=INK, parse_math=False)
