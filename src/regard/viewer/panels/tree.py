"""Panels of a tree."""

from typing import TYPE_CHECKING, Any

from regard.viewer.figure.sheet import EDGE, SOFT, TEXT, _width, paper, write
from regard.viewer.panels.kind import PanelKind
from regard.views import TreeNode, TreePanel

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from collections.abc import Iterator, Sequence
from html import escape

from rich.text import Text

from regard.viewer.checked import Checked
from regard.viewer.terminal.matrix import clean
from regard.viewer.terminal.surface import TerminalSurface

__all__ = ["DEEPEST", "KINDS", "page_tree", "seen_tree", "tree", "tree_lines"]


_STEP = 0.19  # inches from line to line


def tree(panels: Sequence[TreePanel], width: float, title: str, *, values: bool) -> "Figure":
    """Leaves at the foot, each node above the middle of what hangs from it. Of the first panel."""
    panel = panels[0]
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


DEEPEST = 200
"""Levels that a tree may have."""


def seen_tree(row: Checked) -> TreeNode:
    """The tree of a row of a `.seen` file."""
    labels, parents = row.strings("labels"), row.whole("parents")
    row.claim(len(labels) == len(parents) and bool(labels), "parents")
    row.claim(all(p < max(i, 1) for i, p in enumerate(parents)), "parents")
    levels: list[int] = []
    children: list[list[TreeNode]] = [[] for _ in labels]
    for i, parent in enumerate(parents):
        levels.append(levels[parent] + 1 if i else 0)
    row.claim(max(levels) <= DEEPEST, "parents")
    for i in range(len(labels) - 1, 0, -1):  # those below were made before
        children[parents[i]].insert(0, TreeNode(labels[i], tuple(children[i])))
    return TreeNode(labels[0], tuple(children[0]))


def page_tree(node: TreeNode) -> str:
    """A node with what hangs from it; an unnamed root is left out."""
    below = "".join(page_tree(child) for child in node.children)
    if not node.label:
        return below
    inside = f"<ul>{below}</ul>" if below else ""
    return f'<li><span dir="auto">{escape(node.label)}</span>{inside}</li>'


def tree_html(panel: TreePanel) -> str:
    """Lists within lists."""
    return f'<ul class="panel-tree">{page_tree(panel.root)}</ul>'


def tree_lines(place: TerminalSurface, panel: TreePanel) -> Text:
    """A tree, one node per line."""
    lines = [panel.title] if panel.title else []

    def below(node: TreeNode, before: str) -> Iterator[str]:
        for i, child in enumerate(node.children):
            last = i == len(node.children) - 1
            label, under = clean(child.label), child
            while len(under.children) == 1:  # a chain is one line
                under = under.children[0]
                label += f" {clean(under.label)}"
            yield f"{before}{'└─ ' if last else '├─ '}{label}"
            yield from below(under, before + ("   " if last else "│  "))

    root = [panel.root.label] if panel.root.label else []
    return Text("\n".join([*lines, *map(clean, root), *below(panel.root, "")]))


def row_of_tree(panel: TreePanel) -> dict[str, Any]:
    """The label of each node and the place of its parent, parents first."""
    labels: list[str] = []
    parents: list[int] = []
    waiting = [(0, panel.root)]
    while waiting:
        parent, node = waiting.pop()
        labels.append(node.label)
        parents.append(parent)
        waiting += [(len(labels) - 1, child) for child in reversed(node.children)]
    return {"labels": labels, "parents": parents}


def tree_of_row(kind: str, title: str, note: str, row: Checked) -> TreePanel:
    """The tree that `row_of_tree` wrote."""
    return TreePanel(kind, title, note, seen_tree(row))


KINDS = (
    PanelKind(
        name="tree",
        panel=TreePanel,
        terminal=tree_lines,
        figure=tree,
        page=tree_html,
        row=row_of_tree,
        read=tree_of_row,
    ),
)
