"""Lines, arcs, shaded text, curves and comparisons on paper; everything is measured in inches."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError
from regard.viewer._page import _width
from regard.viewer._shown import Shown
from regard.viewer.palette import GRID, HEADS, INK, LESS, MARK, STOPS, ink_on, shade, top_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["arcs", "compare", "curves", "lines", "paper", "shaded", "stacked", "text", "texts"]

Floats = NDArray[np.float32]

TEXT, SMALL, EDGE, TITLE = 8.0, 7.0, 0.06, 0.16
SOFT = "#6b7280"


def paper(width: float, height: float, title: str) -> tuple["Figure", "Axes"]:
    """A sheet to draw on in inches, from the upper left corner, below its title."""
    from matplotlib.figure import Figure

    above = TITLE if title else 0.0
    made = Figure(figsize=(width, height + above), dpi=300)
    axes = made.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, -above))
    axes.set_axis_off()
    write(axes, EDGE, -above / 2, title, SMALL, room=width - 2 * EDGE)
    return made, axes


def write(
    axes: "Axes", x: float, y: float, words: str, size: float = TEXT, *, room: float = 99.0,
    **more: Any,
) -> None:  # fmt: skip
    """A text, as small as its room wants."""
    wide = _width(words, size)
    fitted = size * min(1.0, room / wide) if wide else size
    style: dict[str, Any] = {"color": INK, "va": "center", "parse_math": False} | more
    axes.text(x, y, words, fontsize=fitted, **style)


def colour_of(shown: Shown, k: int) -> Any:
    """One hue for one head, a colour each for several."""
    return HEADS[k % len(HEADS)] if len(shown.weights) > 1 else shaded(0.75)


def shaded(weight: float, top: float = 1.0) -> tuple[float, float, float]:
    """The colour of a weight, as matplotlib wants it."""
    red, green, blue = shade(weight, top)
    return red / 255, green / 255, blue / 255


def _legend(axes: "Axes", shown: Shown, y: float) -> None:
    x = EDGE
    for k, name in enumerate(shown.names if len(shown.weights) > 1 else []):
        axes.plot([x, x + 0.12], [y, y], color=colour_of(shown, k), linewidth=2)
        write(axes, x + 0.16, y, name, SMALL)
        x += 0.26 + _width(name, SMALL)


def lines(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """Lines between two texts, heads in colours."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    count = max(len(shown.rows), len(shown.columns), 1)
    step, legend = 0.15, 0.18 if len(shown.weights) > 1 else 0.0
    made, axes = paper(width, count * step + 2 * EDGE + legend, title)
    most = 0.32 * width
    left = min(max((_width(w, TEXT) for w in shown.rows), default=0.0), most) + EDGE
    right = width - min(max((_width(w, TEXT) for w in shown.columns), default=0.0), most) - EDGE
    y = EDGE + (np.arange(count) + 0.5) * step
    for k, weights in enumerate(shown.weights):
        some = range(len(shown.rows)) if row is None else [row]
        pairs = [(r, c) for r in some for c in np.flatnonzero(np.abs(weights[r]) > 0.03)]
        strength = np.array([min(abs(float(weights[p])) / shown.top, 1.0) for p in pairs])
        shift = (k - (len(shown.weights) - 1) / 2) * 0.012
        axes.add_collection(LineCollection(
            [[(left + 0.06, y[r] + shift), (right - 0.06, y[c] + shift)] for r, c in pairs],
            colors=[to_rgba(colour_of(shown, k), v) for v in strength],
            linewidths=0.3 + 2.2 * strength, capstyle="round",
        ))  # fmt: skip
        if row is not None and values:
            for r, c in pairs[: 3 * count]:
                write(axes, right - 0.08, y[c], f"{weights[r, c]:.2f}", 5.0, ha="right")
    for i, word in enumerate(shown.rows):
        mine: dict[str, Any] = {"color": MARK, "weight": "bold"} if i == row else {}
        write(axes, left, y[i], word, room=most, ha="right", **mine)
    for i, word in enumerate(shown.columns):
        write(axes, right, y[i], word, room=most)
    _legend(axes, shown, count * step + 2 * EDGE + legend / 2 - 0.03)
    return made


def arcs(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """Arcs over one text: above it looks ahead, below it looks back.

    Raises:
        RequestError: rows and columns are not the same places.
    """
    from matplotlib.patches import Arc

    if not shown.own:
        raise RequestError("arcs are of a text that looks at itself: choose a self-attention")
    count = max(len(shown.columns), 1)
    step = (width - 2 * EDGE) / count
    size = min(TEXT, step * 72 * 0.95)
    upright = max((_width(w, size) for w in shown.columns), default=0.0) < step * 0.95
    band = 0.2 if upright else max(_width(w, size) for w in shown.columns) + 0.1
    reach = min(0.32 * width, 1.1)
    legend = 0.18 if len(shown.weights) > 1 else 0.0
    made, axes = paper(width, 2 * reach + band + legend, title)
    x = EDGE + (np.arange(count) + 0.5) * step
    for k, weights in enumerate(shown.weights):
        for r in range(count) if row is None else [row]:
            for c in np.flatnonzero(np.abs(weights[r]) > 0.05):
                if r == c:
                    continue
                strength = min(abs(float(weights[r, c])) / shown.top, 1.0)
                ahead, span = r < c, abs(x[c] - x[r])
                base = reach if ahead else reach + band
                axes.add_patch(Arc(
                    ((x[r] + x[c]) / 2, base), span, 2 * min(span / 2, reach * 0.97),
                    theta1=180 if ahead else 0, theta2=360 if ahead else 180,
                    color=colour_of(shown, k), alpha=strength, linewidth=0.3 + 2 * strength,
                ))  # fmt: skip
    for i, word in enumerate(shown.columns):
        mine: dict[str, Any] = {"color": MARK, "weight": "bold"} if i == row else {}
        turn = 0 if upright else 90
        write(axes, x[i], reach + band / 2, word, size, ha="center", rotation=turn, **mine)
    _legend(axes, shown, 2 * reach + band + legend / 2)
    return made


def text(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """Words shaded by what a row looks at, or all rows on average; a bar before each sentence."""
    said = "" if row is None or shown.own else f"“{shown.rows[row]}”"
    return texts([("", shown, row)], width, " · ".join(p for p in (title, said) if p),
                 values=values)  # fmt: skip


def texts(
    panels: Sequence[tuple[str, Shown, int | None]], width: float, title: str, *,
    values: bool = False,
) -> "Figure":  # fmt: skip
    """The same of several, one below the other, each under its name; rows are counted from 0."""
    laid = [
        (name, _laid(
            shown.columns, shown.row(row), width, starts=set(shown.axis.sections),
            chosen=row if shown.own else None, values=values,
        ))
        for name, shown, row in panels
    ]  # fmt: skip
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
    words: Sequence[str], weights: Floats, width: float, *, starts: Set[int] = frozenset(),
    chosen: int | None = None, values: bool = False,
) -> _Laid:  # fmt: skip
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
            write(axes, middle, py + 0.2, f"{v:.2f}"[1:], 5.5, ha="center", color=ink_on(v, top))


def curves(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """How spread each row is, its largest weight, what each column got, and numbers beside rows."""
    from matplotlib.figure import Figure

    size = np.abs(shown.weights[0])
    share = size / np.maximum(size.sum(1, keepdims=True), 1e-12)
    charts = [
        ("spread, bits", -(share * np.log2(np.maximum(share, 1e-12))).sum(1), shown.rows),
        ("largest weight", size.max(1, initial=0.0), shown.rows),
        ("coverage", shown.weights[0].sum(0), shown.columns),
        *((name, np.array(given), shown.rows) for name, given in shown.extra.items()),
    ]
    made = Figure(figsize=(width, 1.25 * len(charts) + TITLE), dpi=300, layout="constrained")
    if title:
        made.suptitle(title, fontsize=SMALL, color=INK, parse_math=False)
    for axes, (name, numbers, labels) in zip(
        np.ravel(made.subplots(len(charts), 1)), charts, strict=True
    ):
        places = np.arange(len(numbers))
        if labels is shown.columns:
            axes.bar(places, numbers, color=shaded(0.75), width=0.8)
        else:
            axes.plot(places, numbers, color=shaded(0.75), linewidth=1.2, marker=".", markersize=3)
        if row is not None and labels is shown.rows:
            axes.axvline(row, color=MARK, linewidth=0.8)
        axes.set_ylabel(name, fontsize=SMALL)
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", color=GRID, linewidth=0.4)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=6, length=2, width=0.4)
        every = max(-(-len(labels) // 40), 1)
        axes.set_xticks(places[::every], labels[::every], rotation=90, parse_math=False)
    return made


def compare(
    shown: Shown, width: float, row: int | None, title: str, *, other: Shown, values: bool = False
) -> "Figure":
    """Two side by side; where they are of one form, what the first has more of (blue) and less."""
    a, b = shown.weights[0], other.weights[0]
    panels = [(shown, a, f"A {shown.names[0]}"), (other, b, f"B {other.names[0]}")]
    if a.shape == b.shape:
        panels.append((shown, a - b, "A − B"))
    lefts = [max(_width(w, TEXT) for w in one.rows) + EDGE for one in (shown, other)]
    lefts = [lefts[0], lefts[1] if other.rows != shown.rows else 0.0, 0.0]
    above = max(_width(w, TEXT) for w in (*shown.columns, *other.columns)) + EDGE
    room = width - sum(lefts[: len(panels)]) - EDGE * (1 + 2 * len(panels))
    rows = max(len(a), len(b))
    cell = min(room / max(sum(p[1].shape[1] for p in panels), 1), 0.2)
    made, axes = paper(width, above + cell * rows + 0.3, title)
    size, x = min(TEXT, cell * 72 * 0.85), EDGE
    for left, (one, weights, name) in zip(lefts, panels, strict=False):
        limit = max(shown.top, other.top)
        if one is shown and weights is not a:
            limit = top_of([float(np.abs(weights).max(initial=0.0))])
        x += left
        cells(axes, weights, (x, above), cell, limit, values=values)
        wide = cell * weights.shape[1]
        write(axes, x, above + cell * len(weights) + 0.12, f"{name}, up to {limit:g}", SMALL,
              room=max(wide, 0.8))  # fmt: skip
        for i, word in enumerate(one.columns):
            write(axes, x + (i + 0.5) * cell, above - 0.03, word, size, rotation=90, ha="center",
                  va="bottom")  # fmt: skip
        for i, word in enumerate(one.rows if left else []):
            mine: dict[str, Any] = {"color": MARK} if i == row else {}
            write(axes, x - 0.04, above + (i + 0.5) * cell, word, size, ha="right", **mine)
        x += wide + 2 * EDGE
    return made


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
        write(axes, left, y + 0.1, f"{name}, up to {one.top:g}" if name else f"up to {one.top:g}",
              SMALL, color=SOFT, room=width - left)  # fmt: skip
        top = y + 0.2 + head
        cells(axes, one.weights[0], (left, top), cell, one.top, values=values)
        for i, word in enumerate(one.columns):
            write(axes, left + (i + 0.5) * cell, top - 0.03, word, size, rotation=90, ha="center",
                  va="bottom")  # fmt: skip
        for i, word in enumerate(one.rows):
            write(axes, left - EDGE, top + (i + 0.5) * cell, word, size, ha="right")
        y += high
    return made


def cells(
    axes: "Axes", weights: Floats, at: tuple[float, float], size: float, top: float, *,
    values: bool = False,
) -> None:  # fmt: skip
    """A matrix of cells, from white to blue, and to orange below zero."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("signed", [*LESS[::-1], *STOPS[1:]])
    rows, columns = weights.shape
    axes.pcolormesh(
        at[0] + size * np.arange(columns + 1), at[1] + size * np.arange(rows + 1), weights,
        vmin=-top, vmax=top, cmap=colours, edgecolors=GRID, linewidth=0.2,
    )  # fmt: skip
    for i, j in np.ndindex(weights.shape) if values else ():
        v = float(weights[i, j])
        said = f"{v:.2f}".replace("0.", ".")
        write(axes, at[0] + (j + 0.5) * size, at[1] + (i + 0.5) * size, said, size * 72 * 0.4,
              ha="center", color=ink_on(abs(v), top))  # fmt: skip
