"""Lines, arcs, shaded text, curves and comparisons on paper; everything is measured in inches."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from rich.text import Text

from regard.viewer.content import Shown
from regard.viewer.figure.sheet import EDGE, SMALL, SOFT, TEXT, _width, paper, shaded, write
from regard.viewer.palette import GRID, MARK, ink_on, shade, top_of
from regard.viewer.panels.bars import row_of_values, values_of_row
from regard.viewer.panels.kind import MapKind, PanelKind
from regard.viewer.terminal.matrix import clean, mark, shading
from regard.viewer.terminal.surface import (
    Floats,
    TerminalSurface,
    title_for,
    titled,
)
from regard.views import MapPanel, ValuesPanel
from regard.views.numbers import decimal, in_cell, significant

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["KINDS", "page_text", "shaded_lines", "shades", "terminal_text", "text", "texts"]


def text(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """Words shaded by what a row looks at, or all rows on average; a bar before each sentence."""
    said = "" if row is None or shown.own else f"“{shown.rows[row]}”"
    return texts(
        [("", shown, row)], width, " · ".join(p for p in (title, said) if p), values=values
    )


def texts(
    panels: Sequence[tuple[str, Shown, int | None]],
    width: float,
    title: str,
    *,
    values: bool = False,
) -> "Figure":
    """The same of several, one below the other, each under its name; rows are counted from 0."""
    laid = [
        (
            name,
            _laid(
                shown.columns,
                shown.row(row),
                width,
                starts=set(shown.axis.sections),
                chosen=row if shown.own else None,
                values=values,
            ),
        )
        for name, shown, row in panels
    ]
    return _stack(laid, width, title)


def shaded_words(
    words: Sequence[str], weights: Floats, width: float, title: str, *, values: bool = False
) -> "Figure":
    """Words in the colour of their weight."""
    return _stack([("", _laid(words, weights, width, values=values))], width, title)


@dataclass(frozen=True)
class _Laid:
    """Shaded words as they are laid out: the left, the top and the width of each."""

    words: Sequence[str]
    weights: Floats
    places: list[tuple[float, float, float]]
    each: float
    starts: Set[int]
    chosen: int | None
    values: bool

    @property
    def high(self) -> float:
        return (self.places[-1][1] if self.places else EDGE) + self.each + EDGE


def _laid(
    words: Sequence[str],
    weights: Floats,
    width: float,
    *,
    starts: Set[int] = frozenset(),
    chosen: int | None = None,
    values: bool = False,
) -> _Laid:
    """Where each word goes.

    Args:
        starts: the first words of sentences, each of which gets a bar with what it has in all.
        chosen: the word that looks, framed.
    """
    bars = 0.4 if starts else 0.0
    each, gap = (0.27, 0.05) if values else (0.17, 0.05)
    x, y, places = EDGE + bars, EDGE, list[tuple[float, float, float]]()
    for i, word in enumerate(words):
        wide = min(max(_width(word, TEXT) + 0.07, 0.22 if values else 0.1), width - 2 * EDGE - bars)
        if i and (x + wide > width - EDGE or i in starts):
            x, y = EDGE + bars, y + each + gap
        places.append((x, y, wide))
        x += wide + 0.02
    return _Laid(words, weights, places, each, starts, chosen, values)


def _stack(laid: Sequence[tuple[str, _Laid]], width: float, title: str) -> "Figure":
    """Shaded texts on one sheet."""
    above = [0.2 if name else 0.0 for name, _ in laid]
    high = sum(above) + sum(one.high for _, one in laid)
    made, axes = paper(width, high, title)
    y = 0.0
    for head, (name, one) in zip(above, laid, strict=True):
        write(axes, EDGE, y + 0.12, name, SMALL, color=SOFT, room=width - 2 * EDGE)
        _put(axes, one, y + head)
        y += head + one.high
    return made


def _put(axes: "Axes", laid: _Laid, top_edge: float) -> None:
    from matplotlib.patches import Rectangle

    weights, starts = laid.weights, laid.starts
    top = top_of([float(np.abs(weights).max(initial=0.0))])
    ends = sorted({*starts, len(weights)})
    for i, ((px, y, wide), word) in enumerate(zip(laid.places, laid.words, strict=True)):
        v, py = float(weights[i]), y + top_edge
        if i in starts:
            total = float(weights[i : next(e for e in ends if e > i)].sum())
            axes.add_patch(Rectangle((EDGE, py + 0.04), 0.34, 0.08, color=GRID, linewidth=0))
            axes.add_patch(
                Rectangle((EDGE, py + 0.04), 0.34 * min(total, 1), 0.08, color=shaded(0.75), lw=0)
            )
        edge = {"edgecolor": MARK, "linewidth": 1.0} if i == laid.chosen else {"lw": 0}
        axes.add_patch(Rectangle((px, py), wide, laid.each, facecolor=shaded(v, top), **edge))
        middle = px + wide / 2
        write(axes, middle, py + 0.085, word, room=wide, ha="center", color=ink_on(v, top))
        if laid.values:
            write(axes, middle, py + 0.2, in_cell(v), 5.5, ha="center", color=ink_on(v, top))


def terminal_text(place: TerminalSurface, panel: MapPanel) -> Text:
    """One row of weights over the words of a text."""
    found = place.shown(panel)
    row = None if panel.row is None else panel.row - 1
    weights = found.row(row)
    looks = (
        ""
        if row is None or len(found.rows) == 1 or panel.title
        else f"“{clean(found.rows[row])}” attends to"
    )
    title = " · ".join(t for t in (title_for(place, panel), looks) if t)
    return titled(place, panel, [shades(place, found.columns, weights)], title)


def page_text(panel: ValuesPanel) -> str:
    """Words shaded by their values, as HTML."""
    top = top_of([max((abs(v) for v in panel.values), default=0.0)])
    words = []
    for label, value in zip(panel.labels, panel.values, strict=True):
        red, green, blue = shade(abs(value), top)
        style = f"background:rgb({red},{green},{blue});color:{ink_on(abs(value), top)}"
        words.append(
            f'<span style="{style}" title="{significant(value, 4)}">{escape(label)}</span>'
        )
    return " ".join(words)


def shaded_lines(place: TerminalSurface, panel: ValuesPanel) -> Text:
    """Words shaded by their values, under a title."""
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
        made.append(f" {decimal(weight)}  " if place.values else " ")
    return made


def draw_shaded(
    panels: Sequence[ValuesPanel], width: float, title: str, *, values: bool
) -> "Figure":
    """Words shaded by a number each, of the first panel."""
    panel = panels[0]
    numbers = np.array(panel.values, np.float32)
    return shaded_words(panel.labels, numbers, width, title, values=values)


def shaded_html(panel: ValuesPanel) -> str:
    """A paragraph of shaded words."""
    return f'<p class="shaded" dir="auto">{page_text(panel)}</p>'


KINDS = (
    MapKind(name="text", terminal=terminal_text, figure=text),
    PanelKind(
        name="shaded",
        panel=ValuesPanel,
        terminal=shaded_lines,
        figure=draw_shaded,
        page=shaded_html,
        row=row_of_values,
        read=values_of_row,
    ),
)
