"""Panels of a table."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from regard.viewer.checked import Checked
from regard.viewer.figure.sheet import EDGE, SMALL, SOFT, TEXT, _width, paper, write
from regard.viewer.palette import INK
from regard.viewer.panels.kind import PanelKind
from regard.views import TablePanel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

from rich.cells import cell_len
from rich.text import Text

from regard.viewer.panels.tree import _STEP
from regard.viewer.terminal.matrix import clean
from regard.viewer.terminal.surface import TerminalSurface

__all__ = ["KINDS", "table", "table_lines"]


def table(panels: Sequence[TablePanel], width: float, title: str, *, values: bool) -> "Figure":
    """Rows of text below their columns' names; the note at the foot. Of the first panel."""
    panel = panels[0]
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


def table_html(panel: TablePanel) -> str:
    """A table that may be wider than the page, in a strip of its own."""
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in panel.columns)
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in panel.cells)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<div class="strip"><table><thead><tr>{names}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def row_of_table(panel: TablePanel) -> dict[str, Any]:
    """Names of columns, and all cells one after the other."""
    return {"columns": panel.columns, "cells": [c for line in panel.cells for c in line]}


def table_of_row(kind: str, title: str, note: str, row: Checked) -> TablePanel:
    """Cells in rows as long as there are columns."""
    columns, cells = row.strings("columns"), row.strings("cells")
    wide = len(columns)
    row.claim(len(cells) % wide == 0 if wide else not cells, "cells")
    lines = (tuple(cells[i : i + wide]) for i in range(0, len(cells), wide or 1))
    return TablePanel(kind, title, note, tuple(columns), tuple(lines))


KINDS = (
    PanelKind(
        name="table",
        panel=TablePanel,
        terminal=table_lines,
        figure=table,
        page=table_html,
        row=row_of_table,
        read=table_of_row,
    ),
)
