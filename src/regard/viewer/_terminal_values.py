"""Where and how a terminal draws; bars, shaded words, tables, trees and neighbors as text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.text import Text

from regard.viewer._shown import Shown, names_of, neighbors_of, shown, title_of
from regard.viewer.palette import top_of
from regard.viewer.terminal import clean, mark, shading
from regard.views import MapPanel, Run, TablePanel, TreeNode, TreePanel, ValuesPanel, View

__all__ = [
    "BAR",
    "TerminalSurface",
    "bars_lines",
    "chosen_rows",
    "graph_lines",
    "largest",
    "neighbors_lines",
    "right",
    "shaded_lines",
    "shades",
    "table_lines",
    "title_for",
    "titled",
    "tree_lines",
]  # fmt: skip

Floats = NDArray[np.float32]

MOST = 40
"""Neighbors, and edges of a graph, that a table has room for."""
FEW = 3
"""Places that a row's line names: the largest weights."""
BAR = 20
"""Characters of the longest bar."""


@dataclass(frozen=True)
class TerminalSurface:
    """Where and how to draw.

    Args:
        label: at least so wide are the rows' words of a matrix.
        head: whether a matrix has its columns' words above it.
    """

    view: View
    run: Run
    width: int
    colour: bool
    values: bool
    words: bool
    label: int = 0
    head: bool = True

    def shown(self, panel: MapPanel, heads: Sequence[int | None] | None = None) -> Shown:
        """The panel's map, words or pieces on its axes."""
        return shown(self.view, panel, words=self.words, heads=heads)

    def cells(self, weights: Sequence[float] | Floats, top: float, wide: int = 1) -> Text:
        """A cell for each weight, with nothing between them."""
        line = Text()
        for weight in weights:
            size = abs(float(weight))
            line.append(" " * wide, shading(size, top)) if self.colour else line.append(
                mark(size, top) * wide
            )
        return line

    def number(self, weight: float, top: float, form: str = "6.3f") -> Text:
        """A number on the colour of its weight."""
        return Text(f"{weight:{form}}", shading(abs(weight), top) if self.colour else "")


def title_for(place: TerminalSurface, panel: MapPanel) -> str:
    """What the task calls it; else model, attention, layer, head and score."""
    return panel.title or title_of(place.view, place.run, panel)


def titled(place: TerminalSurface, panel: MapPanel, lines: Sequence[Text], title: str = "") -> Text:
    said = title or title_for(place, panel)
    return Text("\n").join([Text(said), *lines] if said else lines)


def shaded_lines(place: TerminalSurface, panel: ValuesPanel) -> Text:
    lines = [Text(panel.title)] if panel.title else []
    numbers = replace(place, values=place.values or not place.colour)
    return Text("\n").join([*lines, shades(numbers, panel.labels, panel.values)])


def shades(place: TerminalSurface, words: Sequence[str], weights: Sequence[float] | Floats) -> Text:
    """Words in the colour of their weight, or with a mark before those that have some."""
    top = top_of([max((abs(float(w)) for w in weights), default=0.0)])
    made = Text()
    for word, weight in zip(words, weights, strict=True):
        size = abs(float(weight))
        if place.colour:
            made.append(clean(word), shading(size, top))
        else:
            made.append(mark(size, top).strip() + clean(word))
        made.append(f" {float(weight):.2f}  " if place.values else " ")
    return made


def bars_lines(place: TerminalSurface, panel: ValuesPanel) -> Text:
    top = max((abs(v) for v in panel.values), default=0.0)
    top = 1.0 if 0 <= top <= 1 else top
    lines = [Text(panel.title)] if panel.title else []
    for label, value in zip(panel.labels, panel.values, strict=True):
        line = Text(f"{value:6.3f}  ")
        long = round(abs(value) / top * BAR)
        lines.append(
            line.append("█" * long + "░" * (BAR - long), "blue").append(f"  {clean(label)}")
        )
    return Text("\n").join(lines)


def table_lines(place: TerminalSurface, panel: TablePanel) -> Text:
    rows = [panel.columns, *panel.cells]
    wide = [max(cell_len(row[c]) for row in rows) for c in range(len(panel.columns))]
    lines = [Text(panel.title)] if panel.title else []
    for i, row in enumerate(rows):
        cells = (clean(c) + " " * (w - cell_len(c)) for c, w in zip(row, wide, strict=True))
        lines.append(Text("  ".join(cells).rstrip(), "" if i else "bold"))
    return Text("\n").join(lines)


def tree_lines(place: TerminalSurface, panel: TreePanel) -> Text:
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


def neighbors_lines(place: TerminalSurface, panel: MapPanel) -> Text:
    """A table of a node's neighbors by falling weight: the mean, then each head."""
    _, rows = neighbors_of(place.view, panel)
    heads = len(rows[0][1]) - 1 if rows else 0
    names = ["mean", *(f"h{h}" for h in range(1, heads + 1))] if heads else ["weight"]
    title = panel.title or names_of(place.view, panel, layer=True)
    lines = [Text(title)] if title else []
    lines.append(Text("neighbor".rjust(10) + "".join(name.rjust(7) for name in names)))
    top = top_of([max(weights) for _, weights in rows])
    for name, weights in rows[:MOST]:
        line = Text(clean(name).rjust(10) if len(name) <= 10 else clean(name)[:9] + "…")
        for weight in weights:
            line.append(" ").append_text(place.number(weight, top))
        lines.append(line)
    if len(rows) > MOST:
        lines.append(Text(f"{'…':>10} and {len(rows) - MOST} more"))
    return Text("\n").join(lines)


def graph_lines(place: TerminalSurface, panel: MapPanel) -> Text:
    """The edges by falling weight, or those of one node."""
    if panel.row is not None:
        return neighbors_lines(place, panel)
    found = shown(place.view, panel, words=False)
    weights = found.weights[0]
    pairs = [(int(r), int(c)) for r, c in zip(*np.nonzero(weights), strict=True)]
    pairs.sort(key=lambda pair: (-float(weights[pair]), pair))
    left = max((cell_len(clean(w)) for w in found.rows), default=0)
    lines = [
        Text(f"{right(found.rows[r], left)} → ").append_text(
            place.number(float(weights[r, c]), found.top, ".3f")
        ).append(f" {clean(found.columns[c])}")
        for r, c in pairs[:MOST]
    ]  # fmt: skip
    if len(pairs) > MOST:
        lines.append(Text(f"{'…':>{left}} and {len(pairs) - MOST} more"))
    return titled(place, panel, lines)


def chosen_rows(found: Shown, panel: MapPanel) -> Sequence[int]:
    return range(len(found.rows)) if panel.row is None else [panel.row - 1]


def largest(weights: Floats, least: float) -> list[int]:
    order = np.argsort(-np.abs(weights), kind="stable")[:FEW]
    return [int(c) for c in order if abs(weights[c]) >= least]


def right(word: str, room: int) -> str:
    return " " * (room - cell_len(clean(word))) + clean(word)
