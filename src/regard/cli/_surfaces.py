"""How `regard look` puts a view into a file, the terminal, or a browser: any view of any task."""

import os
import sys
import tempfile
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli._common import emit, print_result, say
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.viewer import DrawableView
    from regard.views import Panel

__all__ = [
    "PAGES",
    "open_browser",
    "page_to_open",
    "put_figure",
    "put_page",
    "put_terminal",
    "refuse_unused",
    "serve",
]

PAGES = (".html", ".htm", ".seen")


def refuse_unused(
    folder: str,
    output: Path | None,
    *,
    serve: bool,
    as_json: bool,
    port: int | None,
    width: str,
    of_file: Mapping[str, Any],
    of_model: Mapping[str, Any],
) -> None:
    """Refuse options that this surface has no use for.

    Args:
        of_file: options that a `.seen` file cannot keep, by name; those that were given are true.
        of_model: options that need a model, which a `.seen` file is not.

    Raises:
        RequestError: the first option that would be ignored.
    """
    ending = output.suffix.lower() if output is not None else ""
    given = {name: value for name, value in of_file.items() if value}
    model = [name for name, value in of_model.items() if value]
    if serve and (output is not None or as_json):
        raise RequestError(f"--serve: it shows a page; leave out {'-o' if output else '--json'}")
    if port is not None and not serve:
        raise RequestError("--port: it is for --serve")
    if width and (ending in PAGES or output is None):
        raise RequestError("--width: it is for pictures; expected -o with .png, .pdf or .svg")
    if ending == ".seen" and given:
        raise RequestError(
            f"--{next(iter(given))}: a .seen file keeps every run, layer and head, and no choice of"
            " them; leave it out, or write a page (.html)"
        )
    if as_json and output is None and "values" in given:
        raise RequestError("--values: JSON has the weights; it is for pictures")
    if folder.endswith(".seen") and model:
        raise RequestError(f"--{model[0]}: it needs a model, and {folder} is a file of weights")


def put_page(
    view: "DrawableView", output: Path, *, as_json: bool, state: Mapping[str, Any]
) -> None:
    """Write a page that opens in a state, or a `.seen` file, with everything."""
    if output.suffix.lower() == ".seen":
        view.save(output)
    else:
        view.page(output, state=state)
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

    from regard.viewer.labels import visible
    from regard.viewer.rendering import render

    console = Console(highlight=False)
    colour = console.is_terminal and console.color_system is not None
    colour = colour and "NO_COLOR" not in os.environ
    width = console.width if sys.stdout.isatty() else max(console.width, 160)
    own = view.runs[run]
    text = render(view, own, panels, width=width, colour=colour, **options)
    said = [visible(line, "\n\t") for line in (own.input, own.output) if line]
    print_result("\n".join(said))
    console.print()
    console.print(text, soft_wrap=True)


def page_to_open(output: Path | None) -> Path:
    """The page that a browser is to show: the one that is written, or a temporary file.

    Raises:
        RequestError: another kind of file is written.
    """
    if output is None:
        return Path(tempfile.mkdtemp(prefix="regard-look-")) / "look.html"
    if output.suffix.lower() not in (".html", ".htm"):
        raise RequestError(f"--open: it shows a page; expected -o with .html, got {output}")
    return output


def open_browser(address: str) -> None:
    """Show an address in the browser of the desktop; say so where there is none."""
    try:
        found = webbrowser.open(address)
    except webbrowser.Error:
        found = False
    if not found:
        say(f"no browser was found here; open {address}")


def serve(
    view: "DrawableView", port: int, state: Mapping[str, Any], *, browser: bool = False
) -> None:
    """Until it is interrupted.

    Args:
        browser: show the page in a browser.
    """
    with view.serve(port, state=state) as live:
        say(f"{live.address}  (Ctrl-C ends it)")
        if browser:
            open_browser(live.address)
        try:
            live.wait()
        except KeyboardInterrupt:
            say("closed")
