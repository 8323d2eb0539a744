"""Bars, words, tables, trees and stretches of a page: plain HTML, beside what the script draws."""

from collections.abc import Sequence
from html import escape

from regard.viewer.panels.spans import spans_html
from regard.viewer.panels.text import page_text
from regard.viewer.panels.tree import page_tree
from regard.views import Panel, Run, SpansPanel, TablePanel, TreePanel, ValuesPanel
from regard.views.numbers import significant

__all__ = ["panels_html"]


def panels_html(runs: Sequence[Run]) -> str:
    """A block for each panel that is of no map; those of the chosen run are shown."""
    made = []
    for number, run in enumerate(runs):
        for panel in run.panels:
            inside = _inside(panel)
            if inside:
                hidden = " hidden" if number else ""
                note = f'<p class="soft">{escape(panel.note)}</p>' if panel.note else ""
                made.append(
                    f'<section class="panel" data-run="{number}"{hidden}>{inside}{note}</section>'
                )
    return "".join(made)


def _inside(panel: Panel) -> str:
    title = escape(panel.title)
    if isinstance(panel, ValuesPanel) and panel.kind == "bars":
        top = max((abs(v) for v in panel.values), default=0.0)
        top = 1.0 if 0 <= top <= 1 else top
        rows = "".join(
            f'<tr><th scope="row" dir="auto">{escape(label)}</th><td>{significant(value)}</td>'
            f'<td class="meter"><i style="width:{abs(value) / top * 100:.1f}%"></i></td></tr>'
            for label, value in zip(panel.labels, panel.values, strict=True)
        )
        return f"<table><caption>{title}</caption><tbody>{rows}</tbody></table>"
    head = f"<h2>{title}</h2>" if title else ""
    if isinstance(panel, ValuesPanel):
        return f'{head}<p class="shaded" dir="auto">{page_text(panel)}</p>'
    if isinstance(panel, TablePanel):
        names = "".join(f'<th scope="col">{escape(name)}</th>' for name in panel.columns)
        lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in panel.cells)
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return (
            f'{head}<div class="strip"><table><thead><tr>{names}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )
    if isinstance(panel, SpansPanel):
        return head + spans_html(panel)
    if isinstance(panel, TreePanel):
        return f'{head}<ul class="panel-tree">{page_tree(panel.root)}</ul>'
    return ""
