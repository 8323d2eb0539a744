"""What a kind of panel is: how it is drawn on each surface, and how a `.seen` file keeps it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from regard.viewer.checked import Checked
from regard.viewer.figure.matrix import COLUMN
from regard.viewer.terminal.surface import TerminalSurface
from regard.views import MapPanel, Panel

__all__ = ["MapKind", "PanelKind"]


@dataclass(frozen=True, kw_only=True)
class PanelKind:
    """A kind of panel with a class and data of its own; one file of `viewer/panels` has all of it.

    Args:
        name: one of `views.KINDS`.
        panel: the class of its panels.
        terminal: (surface, panel) to lines of text.
        figure: (panels of this kind, inches, title, values=whether to write numbers) to a figure.
        page: a panel to HTML, below its title; None where the page's script draws it.
        row: the fields of a panel in the header of a `.seen` file, beside kind, title and note.
        read: (kind, title, note, those fields) to the panel, or the sentence that they are damaged.
        captioned: whether its HTML has the title already.
        several: whether a figure has all panels of the kind, each with its title, not the first.
    """

    name: str
    panel: type[Panel]
    terminal: Callable[[TerminalSurface, Any], Text]
    figure: Callable[..., Any] | None = None
    page: Callable[[Any], str] | None = None
    row: Callable[[Any], Mapping[str, Any]]
    read: Callable[[str, str, str, Checked], Panel]
    captioned: bool = False
    several: bool = False


def _row_of_map(panel: MapPanel) -> dict[str, Any]:
    row: dict[str, Any] = {"map": panel.map, "heads": panel.heads, "row": panel.row or 0}
    row |= {"rows": panel.rows, "columns": panel.columns}
    if panel.other is not None:
        row["other"] = [panel.other[0], panel.other[1] or 0]
    return row


def _map_of_row(kind: str, title: str, note: str, row: Checked) -> MapPanel:
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


@dataclass(frozen=True, kw_only=True)
class MapKind(PanelKind):
    """A kind of picture of a map; the page's script draws it.

    Args:
        figure: (weights to show, inches, row, title, values=whether to write numbers) to a figure;
            None where `viewer.drawing` puts several side by side.
        width: inches of the figure where none are asked for.
    """

    panel: type[Panel] = MapPanel
    row: Callable[[Any], Mapping[str, Any]] = _row_of_map
    read: Callable[[str, str, str, Checked], Panel] = _map_of_row
    width: float = COLUMN
