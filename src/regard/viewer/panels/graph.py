"""Panels of a graph and of the neighbors of a node."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.viewer.content import neighbors_of
from regard.viewer.figure.sheet import SMALL, TEXT, paper, shaded, write
from regard.viewer.palette import INK, MARK, ink_on, shade, top_of
from regard.viewer.panels.kind import MapKind
from regard.views import MapPanel, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
from typing import TYPE_CHECKING

from numpy.typing import NDArray
from rich.cells import cell_len
from rich.text import Text

from regard.errors import RequestError
from regard.viewer.content import Shown, names_of, shown
from regard.viewer.terminal.matrix import clean
from regard.viewer.terminal.surface import MOST, TerminalSurface, right, titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "CLOSE",
    "KINDS",
    "NODES",
    "graph",
    "graph_lines",
    "neighbors",
    "neighbors_lines",
    "places",
]


def neighbors(
    view: View, panels: Sequence[tuple[str, MapPanel]], width: float | None, title: str
) -> "Figure":
    """A row for each layer: the mean and each head, lines as wide as their weights."""
    from matplotlib.figure import Figure

    told = [(name, *neighbors_of(view, panel)) for name, panel in panels]
    across = max(len(rows[0][1]) if rows else 1 for _, _, rows in told)
    inches = width or max(3.0, 1.5 * across)
    made = Figure(
        figsize=(inches, max(inches / across, 1.5) * len(told) + 0.4), layout="constrained"
    )
    grid = made.subplots(len(told), across, squeeze=False)
    for (name, node, rows), places in zip(told, grid, strict=True):
        for head, axes in enumerate(places):
            axes.set_axis_off()
            if rows and head < len(rows[0][1]):
                own = [(label, values[head]) for label, values in rows[:MOST]]
                _circle(axes, node, own, f"head {head}" if head else name.replace(" (", "\n("))
    if title:
        made.suptitle(title, fontsize=TEXT + 1, color=INK, parse_math=False)
    return made


def _circle(axes: "Axes", node: str, rows: Sequence[tuple[str, float]], name: str) -> None:
    """A node in the middle of its neighbors."""
    top = top_of([weight for _, weight in rows])
    own = dict(rows).get("itself", 0.0)
    others = sorted((label, weight) for label, weight in rows if label != "itself")
    tiny: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL, "parse_math": False}
    for i, (other, weight) in enumerate(others):
        angle = np.pi / 2 - 2 * np.pi * i / max(len(others), 1)
        x, y = np.cos(angle), np.sin(angle)
        colour = tuple(c / 255 for c in shade(0.25 * top + 0.75 * weight, top))
        axes.plot([0, x], [0, y], color=colour, linewidth=0.4 + 6 * weight / top, zorder=1)
        axes.text(1.22 * x, 1.22 * y, other, color=INK, **tiny)
    middle = tuple(c / 255 for c in shade(own, top))
    axes.scatter([0], [0], s=260, color=[middle], edgecolors=MARK, zorder=2)
    axes.text(0, 0, node, color=ink_on(own, top), **tiny)
    axes.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal")
    axes.set_title(name, fontsize=TEXT, color=INK, parse_math=False)


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
            line.append(" ").append_text(place.number(weight, top, 3, 6))
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
        Text(f"{right(found.rows[r], left)} → ")
        .append_text(place.number(float(weights[r, c]), found.top, 3))
        .append(f" {clean(found.columns[c])}")
        for r, c in pairs[:MOST]
    ]
    if len(pairs) > MOST:
        lines.append(Text(f"{'…':>{left}} and {len(pairs) - MOST} more"))
    return titled(place, panel, lines)


NODES = 300


CLOSE = 0.07  # inches: numbers of looks that are nearer would lie on each other


def graph(
    shown: Shown, width: float, row: int | None, title: str, *, values: bool = False
) -> "Figure":
    """Nodes and edges as wide as their weights; those of one node alone where a row is given.

    Raises:
        RequestError: rows and columns are not the same nodes, or too many.
    """
    weights, count = shown.weights[0], len(shown.columns)
    if not shown.own or count > NODES:
        raise RequestError(f"a graph is of at most {NODES} nodes that look at one another")
    np.fill_diagonal(joined := weights > 0.001, False)
    given = shown.axis.edges or list(zip(*np.nonzero(joined), strict=True))
    place = places(count, np.array(given, dtype=int).reshape(-1, 2))
    made, axes = paper(width, width * 0.85, title)
    x, y = 0.25 + place[:, 0] * (width - 0.5), 0.2 + place[:, 1] * (width * 0.85 - 0.4)
    order = sorted(zip(*np.nonzero(joined), strict=True), key=lambda e: float(weights[e]))
    for r, c in order:
        if row is not None and r != row:
            continue
        strength = float(weights[r, c]) / shown.top
        arrow = {"arrowstyle": "-", "connectionstyle": "arc3,rad=0.12", "shrinkA": 0, "shrinkB": 0}
        style = {"color": shaded(0.25 + 0.75 * strength), "lw": 0.3 + 3 * strength}
        axes.annotate("", (x[c], y[c]), (x[r], y[r]), arrowprops=arrow | style)
    small = count > 60
    for i, label in enumerate(shown.columns):
        v = float(weights[i, i] if row is None else weights[row, i])
        edge = MARK if i == row else INK
        axes.plot(
            x[i],
            y[i],
            "o",
            markersize=3 if small else 10,
            color=shaded(v, shown.top),
            markeredgecolor=edge,
            markeredgewidth=0.5,
            zorder=3,
        )
        if not small:
            write(axes, x[i], y[i], label, 5.0, ha="center", zorder=4, color=ink_on(v, shown.top))
    return made


def places(count: int, edges: NDArray[Any], rounds: int = 120) -> NDArray[Any]:
    """Places in the unit square: pushed apart, pulled along the edges; always the same."""
    turn, out = np.arange(count) * 2.39996, np.sqrt((np.arange(count) + 0.5) / count) / 2
    at = np.stack([out * np.cos(turn), out * np.sin(turn)], 1)
    k = 0.7 / np.sqrt(max(count, 1))
    for t in range(rounds):
        away = at[:, None] - at
        far = (away**2).sum(-1, keepdims=True) + 1e-5
        force = (away * (k * k / far)).sum(1)
        if len(edges):
            pull = at[edges[:, 0]] - at[edges[:, 1]]
            pull *= np.linalg.norm(pull, axis=1, keepdims=True) / k
            np.add.at(force, edges[:, 0], -pull)
            np.add.at(force, edges[:, 1], pull)
        size = np.linalg.norm(force, axis=1, keepdims=True) + 1e-12
        at = at + force / size * np.minimum(size, 0.06 * (1 - t / rounds))
    low, high = at.min(0, initial=0.0), at.max(0, initial=0.0)
    found: NDArray[Any] = (at - low) / np.where(high > low, high - low, 1)
    return found


KINDS = (
    MapKind(name="graph", terminal=graph_lines, figure=graph),
    MapKind(name="neighbors", terminal=neighbors_lines),
)
