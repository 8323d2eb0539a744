"""How `regard look` puts a view into a file, the terminal, or a browser: any view of any task."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli._common import emit, print_result, say

if TYPE_CHECKING:
    from regard.viewer import DrawableView
    from regard.views import Panel

__all__ = ["PAGES", "put_figure", "put_page", "put_terminal", "serve"]

PAGES = (".html", ".htm", ".seen")


def put_page(view: "DrawableView", output: Path, *, as_json: bool) -> None:
    """Write a page or a `.seen` file with everything."""
    (view.save if output.suffix.lower() == ".seen" else view.page)(output)
    size = output.stat().st_size
    say(f"{output}: {len(view.runs)} run(s), {size:,} bytes")
    if not as_json:
        return
    if any(run.result for run in view.runs):
        for run in view.runs:
            emit({**run.result, "file": str(output)})
        return
    found = [{"input": run.input, "output": run.output, "score": run.score} for run in view.runs]
    emit({"file": str(output), "bytes": size, "hypotheses": found})


def put_figure(
    view: "DrawableView", run: int, panels: "Sequence[Panel]", output: Path, **options: Any
) -> None:
    """Write a figure of panels of one kind."""
    from regard.viewer.drawing import draw

    draw(view, view.runs[run], panels, output, **options)
    say(f"{output}: {view.runs[run].output or view.title}")


def put_terminal(view: "DrawableView", run: int, panels: "Sequence[Panel]", **options: Any) -> None:
    """Print panels, below what came in and what came out."""
    from rich.console import Console

    from regard.viewer.rendering import render

    console = Console(highlight=False)
    colour = console.is_terminal and console.color_system is not None
    colour = colour and "NO_COLOR" not in os.environ
    width = console.width if sys.stdout.isatty() else max(console.width, 160)
    own = view.runs[run]
    text = render(view, own, panels, width=width, colour=colour, **options)
    print_result("\n".join(line for line in (own.input, own.output) if line))
    console.print()
    console.print(text, soft_wrap=True)


def serve(view: "DrawableView", port: int) -> None:
    """Until it is interrupted."""
    with view.serve(port) as live:
        say(f"{live.address}  (Ctrl-C ends it)")
        try:
            live.wait()
        except KeyboardInterrupt:
            say("closed")
