"""Panels of a run in the header of a `.seen` file, and back."""

from collections.abc import Sequence
from typing import Any

from regard.viewer.checked import Checked
from regard.viewer.panels.registry import PANEL_KINDS
from regard.views import KINDS, Map, MapPanel, Panel, Run

__all__ = ["panel_of", "row_of"]

PAGE = {"neighbors": "graph"}
"""What a page calls a view, where that is not the panel's kind."""
LONG = 60
"""Columns from which on a page shows few rows as shaded text, not as a matrix."""


def row_of(run: Run, maps: Sequence[Map]) -> dict[str, Any]:
    """A run without what is not there; the values for `--json` are not kept.

    `view` is what a page opens with: the first panel of the map that it opens with.
    """
    row: dict[str, Any] = {
        name: getattr(run, name)
        for name in ("maps", "label", "input", "output", "model", "folder", "score", "number", "of")
    }
    if run.title:
        row["title"] = run.title
    if run.target:
        row["target"] = run.target
    if run.step is not None:
        row["step"] = run.step
    if run.panels:
        row["panels"] = [_row(panel) for panel in run.panels]
        own = (p for p in run.panels if isinstance(p, MapPanel) and p.map == run.maps[0])
        first = next(own, None)
        if first is not None and not (first.kind == "matrix" and _is_long(maps[first.map])):
            row["view"] = PAGE.get(first.kind, first.kind)
    return row


def _is_long(one: Map) -> bool:
    _, rows, columns = one.shape
    return columns > LONG and columns > 12 * rows


def _row(panel: Panel) -> dict[str, Any]:
    row = {"kind": panel.kind, **PANEL_KINDS[panel.kind].row(panel)}
    row |= {"title": panel.title, "note": panel.note}
    return {name: value for name, value in row.items() if value or name == "map"}


def panel_of(row: Checked) -> Panel:
    """A panel as the header has it.

    Raises:
        RequestError: it cannot be as it says.
    """
    kind = row.one_of("kind", tuple(KINDS))
    return PANEL_KINDS[kind].read(kind, row.text("title"), row.text("note"), row)
