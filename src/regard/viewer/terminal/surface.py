"""Where and how a terminal draws; bars, shaded words, tables, trees and neighbors as text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.text import Text

from regard.viewer.content import Shown, shown, title_of
from regard.viewer.terminal.matrix import clean, mark, shading
from regard.views import MapPanel, Run, View
from regard.views.numbers import decimal

__all__ = ["BAR", "TerminalSurface", "chosen_rows", "largest", "right", "title_for", "titled"]

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

    def number(self, weight: float, top: float, digits: int, room: int = 0) -> Text:
        """A number on the colour of its weight, at the right end of its room."""
        return Text(
            decimal(weight, digits).rjust(room), shading(abs(weight), top) if self.colour else ""
        )


def title_for(place: TerminalSurface, panel: MapPanel) -> str:
    """What the task calls it; else model, attention, layer, head and score."""
    return panel.title or title_of(place.view, place.run, panel)


def titled(place: TerminalSurface, panel: MapPanel, lines: Sequence[Text], title: str = "") -> Text:
    """Lines under the title of a panel."""
    said = title or title_for(place, panel)
    return Text("\n").join([Text(said), *lines] if said else lines)


def chosen_rows(found: Shown, panel: MapPanel) -> Sequence[int]:
    """The rows that a panel shows: all, or the one that it names."""
    return range(len(found.rows)) if panel.row is None else [panel.row - 1]


def largest(weights: Floats, least: float) -> list[int]:
    """The columns with the largest weights, at most `FEW`, none below `least`."""
    order = np.argsort(-np.abs(weights), kind="stable")[:FEW]
    return [int(c) for c in order if abs(weights[c]) >= least]


def right(word: str, room: int) -> str:
    """A word moved to the right end of its room."""
    return " " * (room - cell_len(clean(word))) + clean(word)
