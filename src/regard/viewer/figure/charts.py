"""Charts of experiments on paper: lines, bars and matrices side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.viewer.figure.matrix import COLUMN, PAGE, _matplotlib, _quiet, _save, check_format
from regard.viewer.figure.sheet import blues, style
from regard.viewer.palette import GRID, HEADS, INK, ink_on
from regard.views.charts import Chart, Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_charts"]

ACROSS = 3
HIGH = 2.3
"""Inches of a row of charts."""
AROUND = 0.6
"""Inches of the title and of the words below."""
ROOM = 20
"""Characters that fit below a matrix side by side; more are turned."""


def draw_charts(charts: Sequence[Chart | Matrix], path: str | Path | None = None) -> "Figure":
    """Draw charts in reading order, at most three beside each other.

    Args:
        path: also write it there; the format follows from the ending.

    Raises:
        RequestError: a format that is not supported, or `matplotlib` is not installed.
    """
    if path is not None:
        check_format(path)
    with _quiet(), _matplotlib().rc_context(style()):
        from matplotlib.figure import Figure

        across = min(len(charts), ACROSS)
        down = -(-len(charts) // across)
        width = COLUMN if across == 1 else PAGE
        size = (width, _high(charts, width / across) * down)
        figure = Figure(figsize=size, dpi=200, layout="constrained")
        every = figure.subplots(down, across, squeeze=False).flatten()
        for axes, chart in zip(every, charts, strict=False):
            if isinstance(chart, Matrix):
                _matrix(axes, chart)
            else:
                _chart(axes, chart)
            axes.set_title(chart.title, fontsize=7, color=INK, loc="left")
            axes.tick_params(which="both", labelsize=6, colors=INK)
        for axes in every[len(charts) :]:
            axes.remove()
        if path is not None:
            _save(figure, Path(path))
    return figure


def _high(charts: Sequence[Chart | Matrix], width: float) -> float:
    """Inches of a row of charts: less where all are matrices that are wider than high."""
    if not all(isinstance(chart, Matrix) for chart in charts):
        return HIGH
    flat = [chart for chart in charts if isinstance(chart, Matrix) and chart.rows]
    needs = [len(own.rows) * width / max(len(own.columns or own.weights[0]), 1) for own in flat]
    return min(HIGH, max(needs, default=HIGH) + AROUND)


def _chart(axes: "Axes", chart: Chart) -> None:
    """Lines through the mean at each x, with a dot for each seed; or bars with a dot for each."""
    for number, (name, points) in enumerate(chart.lines.items()):
        color = HEADS[number % len(HEADS)]
        places = sorted({x for x, _ in points})
        each = [[y for x, y in points if x == place] for place in places]
        means = [sum(ys) / len(ys) for ys in each]
        axes.plot(places, means, color=color, linewidth=1.0, label=name)
        if len(points) > len(places) or len(places) < 30:
            axes.plot(*zip(*points, strict=True), ".", color=color, markersize=3)
    for number, (name, values) in enumerate(chart.bars.items()):
        mean = sum(values) / len(values)
        axes.bar([name], [mean], color=HEADS[number % len(HEADS)], width=0.6, alpha=0.8)
        if len(values) > 1:
            axes.plot([name] * len(values), values, ".", color=INK, markersize=3)
    if chart.shaded is not None:
        axes.axvspan(*chart.shaded, color=GRID, alpha=0.6, zorder=0)
    if "x" in chart.log:
        axes.set_xscale("log", base=2)
    if "y" in chart.log:
        axes.set_yscale("log")
    axes.set_xlabel(chart.x, fontsize=7, color=INK)
    axes.set_ylabel(chart.y, fontsize=7, color=INK)
    if len(chart.lines) > 1:
        axes.legend(fontsize=6, frameon=False, labelcolor=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)


def _matrix(axes: "Axes", matrix: Matrix) -> None:
    """Shades from white to the largest weight, or to `top`."""
    axes.imshow(matrix.weights, cmap=blues(), vmin=0.0, vmax=matrix.top, aspect="equal")
    axes.set_yticks(range(len(matrix.rows)), matrix.rows)
    wide = sum(map(len, matrix.columns)) > ROOM
    turned: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(matrix.columns)), matrix.columns, **(turned if wide else {}))
    axes.tick_params(length=0)
    if not matrix.numbers:
        return
    top = max(map(max, matrix.weights)) if matrix.top is None else matrix.top
    for row, weights in enumerate(matrix.weights):
        for column, weight in enumerate(weights):
            text, color = format(weight, matrix.numbers), ink_on(weight, top)
            axes.text(column, row, text, ha="center", va="center", fontsize=6, color=color)
