"""Panels of weights as a matrix."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from rich.cells import cell_len
from rich.text import Text

from regard.viewer.content import Shown, hops_of, names_of, relative
from regard.viewer.figure.sheet import _width
from regard.viewer.palette import GRID, LESS, STOPS, ink_on
from regard.viewer.panels.kind import MapKind
from regard.viewer.terminal.matrix import draw
from regard.viewer.terminal.surface import (
    TerminalSurface,
    title_for,
)
from regard.views import MapPanel
from regard.views.numbers import in_cell
from regard.views.picture import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
from regard.viewer.figure.sheet import EDGE, SMALL, SOFT, TEXT, Floats, paper, write

__all__ = ["KINDS", "cells", "stacked", "terminal_hops", "terminal_matrix"]


def terminal_matrix(place: TerminalSurface, panel: MapPanel) -> Text:
    """A matrix of shades, with its words."""
    one = place.view.maps[panel.map]
    heads: Sequence[int | None] = panel.heads or (None,)
    if panel.kind == "heads" and not panel.heads:
        heads = range(1, one.shape[0] + 1)
    made = []
    for head in heads:
        own = replace(panel, heads=() if head is None else (head,))
        found = place.shown(own)
        weights, rows = relative(one, found.weights[0]), found.rows
        if panel.row is not None:
            weights, rows = weights[panel.row - 1 : panel.row], rows[panel.row - 1 : panel.row]
        picture = Picture(rows, found.columns, torch.from_numpy(np.array(weights)))
        title = names_of(place.view, own, layer=True) if own.title else title_for(place, own)
        made.append(
            draw(
                picture,
                width=place.width,
                colour=place.colour,
                values=place.values,
                title=title or None,
                label=place.label,
                head=place.head,
            )
        )
    return Text("\n\n").join(made)


def terminal_hops(place: TerminalSurface, panel: MapPanel) -> Text:
    """A matrix for each hop of a memory."""
    found = hops_of(place.view, place.run, panel, words=place.words)
    picture = Picture(found.rows, found.columns, torch.from_numpy(found.weights[0]))
    wide = max(place.width, 3 * max((cell_len(fact) for fact in found.rows), default=0))
    return draw(picture, width=wide, colour=place.colour, values=True, title=panel.title or None)


def stacked(
    pictures: Sequence[tuple[str, Shown]], width: float, title: str, *, values: bool = False
) -> "Figure":
    """Matrices of different forms, one below the other."""
    left = max(_width(w, TEXT) for _, one in pictures for w in one.rows) + 2 * EDGE
    columns = max(len(one.columns) for _, one in pictures)
    cell = min((width - left - EDGE) / max(columns, 1), 0.2)
    size = min(TEXT, cell * 72 * 0.85)
    above = [max(_width(w, size) for w in one.columns) + EDGE for _, one in pictures]
    each = [
        0.2 + a + cell * len(one.rows) + EDGE for a, (_, one) in zip(above, pictures, strict=True)
    ]
    made, axes = paper(width, sum(each), title)
    y = 0.0
    for (name, one), head, high in zip(pictures, above, each, strict=True):
        write(
            axes,
            left,
            y + 0.1,
            f"{name}, up to {one.top:g}" if name else f"up to {one.top:g}",
            SMALL,
            color=SOFT,
            room=width - left,
        )
        top = y + 0.2 + head
        cells(axes, one.weights[0], (left, top), cell, one.top, values=values)
        for i, word in enumerate(one.columns):
            write(
                axes,
                left + (i + 0.5) * cell,
                top - 0.03,
                word,
                size,
                rotation=90,
                ha="center",
                va="bottom",
            )
        for i, word in enumerate(one.rows):
            write(axes, left - EDGE, top + (i + 0.5) * cell, word, size, ha="right")
        y += high
    return made


def cells(
    axes: "Axes",
    weights: Floats,
    at: tuple[float, float],
    size: float,
    top: float,
    *,
    values: bool = False,
) -> None:
    """A matrix of cells, from white to blue, and to orange below zero."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("signed", [*LESS[::-1], *STOPS[1:]])
    rows, columns = weights.shape
    axes.pcolormesh(
        at[0] + size * np.arange(columns + 1),
        at[1] + size * np.arange(rows + 1),
        weights,
        vmin=-top,
        vmax=top,
        cmap=colours,
        edgecolors=GRID,
        linewidth=0.2,
    )
    for i, j in np.ndindex(weights.shape) if values else ():
        v = float(weights[i, j])
        write(
            axes,
            at[0] + (j + 0.5) * size,
            at[1] + (i + 0.5) * size,
            in_cell(v),
            size * 72 * 0.4,
            ha="center",
            color=ink_on(abs(v), top),
        )


KINDS = (
    MapKind(name="matrix", terminal=terminal_matrix),
    MapKind(name="heads", terminal=terminal_matrix),
    MapKind(name="hops", terminal=terminal_hops),
)
