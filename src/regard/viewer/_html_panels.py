"""Bars, words, tables, trees and stretches of a page: plain HTML, beside what the script draws."""

from collections.abc import Sequence
from html import escape

from regard.viewer._spans import spans_html
from regard.viewer.palette import ink_on, shade, top_of
from regard.views import Panel, Run, SpansPanel, TablePanel, TreeNode, TreePanel, ValuesPanel

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
            f'<tr><th scope="row" dir="auto">{escape(label)}</th><td>{value:.3g}</td>'
            f'<td class="meter"><i style="width:{abs(value) / top * 100:.1f}%"></i></td></tr>'
            for label, value in zip(panel.labels, panel.values, strict=True)
        )
        return f"<table><caption>{title}</caption><tbody>{rows}</tbody></table>"
    head = f"<h2>{title}</h2>" if title else ""
    if isinstance(panel, ValuesPanel):
        return f'{head}<p class="shaded" dir="auto">{_shaded(panel)}</p>'
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
        return f'{head}<ul class="panel-tree">{_tree(panel.root)}</ul>'
    return ""


def _shaded(panel: ValuesPanel) -> str:
    top = top_of([max((abs(v) for v in panel.values), default=0.0)])
    words = []
    for label, value in zip(panel.labels, panel.values, strict=True):
        red, green, blue = shade(abs(value), top)
        style = f"background:rgb({red},{green},{blue});color:{ink_on(abs(value), top)}"
        words.append(f'<span style="{style}" title="{value:.4g}">{escape(label)}</span>')
    return " ".join(words)


def _tree(node: TreeNode) -> str:
    """A node with what hangs from it; an unnamed root is left out."""
    below = "".join(_tree(child) for child in node.children)
    if not node.label:
        return below
    inside = f"<ul>{below}</ul>" if below else ""
    return f'<li><span dir="auto">{escape(node.label)}</span>{inside}</li>'
