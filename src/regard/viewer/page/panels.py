"""Bars, words, tables, trees and stretches of a page: plain HTML, beside what the script draws."""

from collections.abc import Sequence
from html import escape

from regard.viewer.panels.registry import PANEL_KINDS
from regard.views import MapPanel, Panel, Run, SpansPanel, TablePanel, TreePanel

__all__ = ["on_stage", "panels_html"]


def panels_html(runs: Sequence[Run]) -> str:
    """A block for each panel that is of no map; those of the chosen run are shown."""
    made = []
    for number, run in enumerate(runs):
        stage = on_stage(run)
        for panel in run.panels:
            inside = _inside(panel)
            if inside:
                hidden = " hidden" if number else ""
                note = f'<p class="soft">{escape(panel.note)}</p>' if panel.note else ""
                shown = " data-stage" if panel in stage else ""
                made.append(
                    f'<section class="panel" data-run="{number}"{shown}{hidden}>'
                    f"{inside}{note}</section>"
                )
    return "".join(made)


def on_stage(run: Run) -> list[Panel]:
    """The panels that are the answer: labeled words, trees, and tables before any picture."""
    maps = [isinstance(panel, MapPanel) for panel in run.panels]
    first = maps.index(True) if True in maps else len(maps)
    return [
        panel
        for i, panel in enumerate(run.panels)
        if isinstance(panel, SpansPanel | TreePanel)
        or (isinstance(panel, TablePanel) and i < first)
    ]


def _inside(panel: Panel) -> str:
    kind = PANEL_KINDS[panel.kind]
    if kind.page is None:
        return ""
    head = f"<h2>{escape(panel.title)}</h2>" if panel.title and not kind.captioned else ""
    return head + kind.page(panel)
