"""Curves of trainings on paper: a panel for each group of numbers, a colour for each run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.viewer.figure.matrix import COLUMN, PAGE, _matplotlib, _quiet, _save, check_format
from regard.viewer.figure.sheet import style
from regard.viewer.palette import GRID, HEADS, INK
from regard.views.curves import AXES, Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_curves"]

ACROSS = 3
STROKES = ("-", "--", ":", "-.")


def draw_curves(
    panels: Sequence[Sequence[Curve]], by: str = "step", path: str | Path | None = None
) -> "Figure":
    """Draw curves: runs by colour, numbers of one panel by stroke.

    Args:
        panels: the curves of each panel.
        by: a name of `regard.views.curves.AXES`, for the label below.
        path: also write it there; the format follows from the ending.

    Raises:
        RequestError: a format that is not had, or `matplotlib` is not installed.
    """
    runs = list(dict.fromkeys(curve.run for panel in panels for curve in panel))
    if path is not None:
        check_format(path)
    with _quiet(), _matplotlib().rc_context(style()):
        from matplotlib.figure import Figure

        across = min(len(panels), ACROSS)
        down = -(-len(panels) // across)
        figure = Figure(
            figsize=(COLUMN if across == 1 else PAGE, 2.1 * down + 0.16 * len(runs)),
            dpi=300,
            layout="constrained",
        )
        every = figure.subplots(down, across, squeeze=False).flatten()
        for axes, panel in zip(every, panels, strict=False):
            _panel(axes, panel, runs, by)
        for axes in every[len(panels) :]:
            axes.remove()
        if len(runs) > 1:
            from matplotlib.lines import Line2D

            shown = [Line2D([], [], color=_color(i), linewidth=1.2) for i in range(len(runs))]
            figure.legend(
                shown, runs, loc="outside lower left", fontsize=6.5, frameon=False, labelcolor=INK
            )
        else:
            figure.suptitle(runs[0] if runs else "", fontsize=7, color=INK, x=0.01, ha="left")
        if path is not None:
            _save(figure, Path(path))
    return figure


def _color(run: int) -> str:
    return HEADS[run % len(HEADS)]


def _panel(axes: "Axes", panel: Sequence[Curve], runs: Sequence[str], by: str) -> None:
    names = list(dict.fromkeys(curve.name for curve in panel))
    for curve in panel:
        axes.plot(
            curve.x,
            curve.y,
            STROKES[names.index(curve.name) % len(STROKES)],
            color=_color(runs.index(curve.run)),
            linewidth=1.0,
            marker="o" if len(curve.x) < 2 else None,
            markersize=3,
        )
    if len(names) > 1:
        for name, stroke in zip(names, STROKES * len(names), strict=False):
            axes.plot([], [], stroke, color=INK, linewidth=1.0, label=name)
        axes.legend(fontsize=6, frameon=False, labelcolor=INK)
    axes.set_title(", ".join(names), fontsize=7, color=INK, loc="left")
    axes.set_xlabel(AXES[by], fontsize=7, color=INK)
    axes.tick_params(labelsize=6.5, colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)
