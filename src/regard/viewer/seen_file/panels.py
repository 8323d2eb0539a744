"""Panels of a run in the header of a `.seen` file, and back."""

from collections.abc import Sequence
from typing import Any

from regard.viewer.checked import Checked
from regard.viewer.panels.spans import UNSURE, _anchor, seen_spans
from regard.viewer.panels.tree import seen_tree
from regard.views import (
    KINDS,
    Map,
    MapPanel,
    Panel,
    Run,
    SpansPanel,
    TablePanel,
    TreePanel,
    ValuesPanel,
)

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
    row: dict[str, Any] = {"kind": panel.kind}
    if isinstance(panel, MapPanel):
        row |= {"map": panel.map, "heads": panel.heads, "row": panel.row or 0}
        row |= {"rows": panel.rows, "columns": panel.columns}
        if panel.other is not None:
            row["other"] = [panel.other[0], panel.other[1] or 0]
    elif isinstance(panel, ValuesPanel):
        row |= {"labels": panel.labels, "values": [float(f"{v:.6g}") for v in panel.values]}
    elif isinstance(panel, TablePanel):
        row |= {"columns": panel.columns, "cells": [c for line in panel.cells for c in line]}
    elif isinstance(panel, SpansPanel):
        row |= {"words": panel.words, "labels": [one.label for one in panel.spans]}
        row["starts"] = [one.start for one in panel.spans]
        row["ends"] = [one.end for one in panel.spans]
        row["values"] = [
            UNSURE if one.value is None else float(f"{one.value:.6g}") for one in panel.spans
        ]
        if panel.anchor is not None:
            row["anchor"] = panel.anchor + 1
    elif isinstance(panel, TreePanel):
        labels: list[str] = []
        parents: list[int] = []
        waiting = [(0, panel.root)]
        while waiting:
            parent, node = waiting.pop()
            labels.append(node.label)
            parents.append(parent)
            waiting += [(len(labels) - 1, child) for child in reversed(node.children)]
        row |= {"labels": labels, "parents": parents}
    row |= {"title": panel.title, "note": panel.note}
    return {name: value for name, value in row.items() if value or name == "map"}


def panel_of(row: Checked) -> Panel:
    """A panel as the header has it.

    Raises:
        RequestError: it cannot be as it says.
    """
    kind = row.one_of("kind", tuple(KINDS))
    title, note = row.text("title"), row.text("note")
    if kind in MapPanel.known():
        other = row.pair("other")
        return MapPanel(
            kind,
            title,
            note,
            row.count("map"),
            tuple(row.whole("heads")),
            row.count("row") or None,
            tuple(row.whole("rows")),
            tuple(row.whole("columns")),
            None if other is None else (other[0], other[1] or None),
        )
    if kind in ValuesPanel.known():
        labels, values = row.strings("labels"), row.floats("values")
        row.claim(len(labels) == len(values), "values")
        return ValuesPanel(kind, title, note, tuple(labels), tuple(values))
    if kind == "table":
        columns, cells = row.strings("columns"), row.strings("cells")
        wide = len(columns)
        row.claim(len(cells) % wide == 0 if wide else not cells, "cells")
        lines = (tuple(cells[i : i + wide]) for i in range(0, len(cells), wide or 1))
        return TablePanel(kind, title, note, tuple(columns), tuple(lines))
    if kind == "spans":
        return SpansPanel(
            kind, title, note, tuple(row.strings("words")), seen_spans(row), _anchor(row)
        )
    return TreePanel(kind, title, note, seen_tree(row))
