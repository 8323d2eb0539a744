"""`regard curves`: how trainings went, from the logs of their folders."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli._common import Json, columns, emit, print_result, say
from regard.errors import RequestError, nearest

if TYPE_CHECKING:
    from regard.views.curves import Curve

__all__ = ["curves"]


def curves(
    folders: Annotated[
        list[str], typer.Argument(metavar="FOLDER...", help="Trained, or still in training.")
    ],
    show: Annotated[
        str | None,
        typer.Option(metavar="A+B,C", help="Names: + in one panel, a comma begins another."),
    ] = None,
    by: Annotated[str, typer.Option(metavar="AXIS", help="step, epoch, cpu or wall.")] = "step",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Draw into a .png, .pdf or .svg."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how trainings went: losses, scores on dev, rewards, learning rates.

    A folder of seeds shows each of them. Without --show: the losses and the score that the
    training goes by.

    Examples:
        regard curves runs/pronunciation/rnnsearch-cmudict-demo
        regard curves runs/first runs/second --by cpu -o curves.png
        regard curves runs/mine --show reward_sample+reward_greedy,lr
    """
    from regard.folder.training_log import curves_of, read_trainings, usual
    from regard.views.curves import AXES

    if by not in AXES:
        raise RequestError(f"--by {by}: {nearest(by, AXES)}")
    if output is not None:
        from regard.viewer.figure.matrix import check_format

        check_format(output)
    trainings = read_trainings(folders)
    asked = [part.split("+") for part in show.split(",")] if show else usual(trainings)
    panels = [curves_of(trainings, names, by) for names in asked]
    if output is not None:
        from regard.viewer.figure.curves import draw_curves

        draw_curves(panels, by, output)
        say(f"{output}: {len(panels)} panels, {len(trainings)} trainings")
    if as_json:
        every = [curve for panel in panels for curve in panel]
        emit({"by": by, "curves": [vars(curve) for curve in every]})
    elif output is None:
        print_result(_table(panels, by))


def _table(panels: "list[list[Curve]]", by: str) -> str:
    from regard.folder.training_log import bars
    from regard.views.curves import AXES

    every = [curve for panel in panels for curve in panel if curve.y]
    if not every:
        raise RequestError(f"--by {by}: the logs have no place on this axis")
    across = (min(min(c.x) for c in every), max(max(c.x) for c in every))
    rows = [("CURVE", "RUN", "FIRST", "", "LAST", "LOWEST", "HIGHEST")]
    for curve in every:
        same = [y for other in every if other.name == curve.name for y in other.y]
        drawn = bars(curve, across, (min(same), max(same)))
        low, high = (
            f"{value:.4g} at {curve.x[curve.y.index(value)]:,.6g}"
            for value in (min(curve.y), max(curve.y))
        )
        first, last = (f"{value:.4g}" for value in (curve.y[0], curve.y[-1]))
        rows.append((curve.name, curve.run, first, drawn, last, low, high))
    ends = " to ".join(f"{end:,.6g}" for end in across)
    return columns(rows) + f"\n\nfrom left to right: {ends} {AXES[by]}"
