"""Panels of bars: a number for each label."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rich.text import Text

from regard.viewer.checked import Checked
from regard.viewer.figure.sheet import EDGE, SMALL, SOFT, TEXT, _width, paper, shaded, write
from regard.viewer.palette import GRID
from regard.viewer.panels.kind import PanelKind
from regard.viewer.panels.tree import _STEP
from regard.viewer.terminal.matrix import clean
from regard.viewer.terminal.surface import BAR, TerminalSurface
from regard.views import ValuesPanel
from regard.views.numbers import decimal, significant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["KINDS", "bars", "bars_lines"]


def bars(panels: Sequence[ValuesPanel], width: float, title: str, *, values: bool) -> "Figure":
    """A bar and its number behind each label, of the first panel."""
    panel = panels[0]
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
    top = _top(panel)
    lines = [Text(panel.title)] if panel.title else []
    for label, value in zip(panel.labels, panel.values, strict=True):
        line = Text(f"{decimal(value, 3):>6}  ")
        long = round(abs(value) / top * BAR)
        lines.append(
            line.append("█" * long + "░" * (BAR - long), "blue").append(f"  {clean(label)}")
        )
    return Text("\n").join(lines)


def _top(panel: ValuesPanel) -> float:
    """What a whole bar stands for: 1 where no value is larger."""
    top = max((abs(v) for v in panel.values), default=0.0)
    return 1.0 if 0 <= top <= 1 else top


def bars_html(panel: ValuesPanel) -> str:
    """A table of a meter for each label, under its caption."""
    top = _top(panel)
    rows = "".join(
        f'<tr><th scope="row" dir="auto">{escape(label)}</th><td>{significant(value)}</td>'
        f'<td class="meter"><i style="width:{abs(value) / top * 100:.1f}%"></i></td></tr>'
        for label, value in zip(panel.labels, panel.values, strict=True)
    )
    return f"<table><caption>{escape(panel.title)}</caption><tbody>{rows}</tbody></table>"


def row_of_values(panel: ValuesPanel) -> dict[str, Any]:
    """Labels and values, six digits each."""
    return {"labels": panel.labels, "values": [float(f"{v:.6g}") for v in panel.values]}


def values_of_row(kind: str, title: str, note: str, row: Checked) -> ValuesPanel:
    """As many values as labels."""
    labels, values = row.strings("labels"), row.floats("values")
    row.claim(len(labels) == len(values), "values")
    return ValuesPanel(kind, title, note, tuple(labels), tuple(values))


KINDS = (
    PanelKind(
        name="bars",
        panel=ValuesPanel,
        terminal=bars_lines,
        figure=bars,
        page=bars_html,
        captioned=True,
        row=row_of_values,
        read=values_of_row,
    ),
)
