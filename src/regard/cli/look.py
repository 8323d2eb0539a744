"""`regard look`: what a model attends to, in the terminal, as a page or a figure for a paper.

It knows no task by name: each gives a `View` of its inputs, and any `View` can be drawn.
"""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli._common import Json, emit, say
from regard.cli._folder import Changes, OfGraph, Threads, open_folder
from regard.cli._surfaces import (
    PAGES,
    open_browser,
    page_to_open,
    put_figure,
    put_page,
    put_terminal,
    refuse_unused,
)
from regard.cli._surfaces import serve as serve_view
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded
    from regard.viewer import DrawableView
    from regard.views import ViewOptions

    Source = Callable[[Sequence[str]], DrawableView]

__all__ = ["look"]


def look(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER",
            help="A trained folder, a shipped name, a .seen file, hf:FOLDER of Hugging Face, or "
            "SCRIPT.py:FUNCTION that makes a model.",
        ),
    ],
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT...", help="What to look at.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help=".html, .seen, .png, .pdf or .svg."),
    ] = None,
    show: Annotated[
        str, typer.Option(metavar="VIEW", help="This picture: lines, arcs, text, bars, tree, …")
    ] = "",
    serve: Annotated[
        bool, typer.Option("--serve", help="The page at an address of this machine.")
    ] = False,
    browser: Annotated[
        bool,
        typer.Option(
            "--open", help="Show the page in a browser; without -o it is a temporary file."
        ),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="N", help="Of --serve; default: one that is free."),
    ] = None,
    hypothesis: Annotated[int, typer.Option(metavar="N", help="Of the beam; 1 is the best.")] = 1,
    layer: Annotated[str, typer.Option(metavar="N|all", help="From 1 up; default: the last.")] = "",
    head: Annotated[
        str, typer.Option(metavar="N|N,M|all|mean", help="From 1 up; all: small multiples.")
    ] = "mean",
    kind: Annotated[
        str, typer.Option(metavar="cross|decoder|encoder|…", help="Which attention.")
    ] = "",
    step: Annotated[int | None, typer.Option(metavar="N", help="One output word alone.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Look at this output, not the model's own.")
    ] = None,
    longest: Annotated[
        int | None,
        typer.Option("--max", min=1, metavar="N", help="Tokens that a model of hf: writes."),
    ] = None,
    pieces: Annotated[
        bool, typer.Option("--pieces/--words", help="The model's pieces, or words.")
    ] = False,
    values: Annotated[bool, typer.Option("--values", help="Write the weights into cells.")] = False,
    width: Annotated[
        str, typer.Option(metavar="column|page|INCHES", help="Default: as the words need.")
    ] = "",
    measure: Annotated[
        str,
        typer.Option(
            metavar="weights|norms|gradient|rollout", help="What to show; see docs/look.md."
        ),
    ] = "weights",
    why: Annotated[
        bool,
        typer.Option(
            "--why",
            help="How the score changes without each head; which words moved a label.",
        ),
    ] = False,
    changes: Changes = None,
    threads: Threads = None,
    graph: OfGraph = None,
    as_json: Json = False,
) -> None:
    """Show what a model attends to: in the terminal, in a page, or as PNG, PDF or SVG.

    Rows are the output's words, columns the input's. A page (.html) has every hypothesis, layer and
    head of all inputs; pictures are written for each input, numbered.

    Examples:
        regard look de-en-small "Das Fenster wird geschlossen." -o page.html
        regard look de-en-small "Das Fenster wird geschlossen."
        regard look de-en-small "Das Fenster wird geschlossen." -o figure.pdf --width column
        regard look de-en-small "Das Fenster wird geschlossen." --head all -o heads.png
        regard look de-en-small "Guten Morgen." --hypothesis 2 --layer 1 --head 3
        regard look de-en-small "Guten Morgen." --target "Good morning." --json
        regard look de-en-small "Guten Morgen." --measure gradient
        regard look de-en-small "Guten Morgen." --why
        regard look de-en-small "Guten Morgen." --show lines --head all -o lines.pdf
        regard look roles-small "She gave him a book." -o roles.png
        regard look digits-small recording.wav -o listened.html
        regard look de-en-small "Guten Morgen." --open
        regard look de-en-small "Guten Morgen." --serve
        regard look hf:my-bert "The cat sat." -o bert.html
        regard look hf:my-gpt2 "The cat" --max 8
        regard look hf:my-vit photo.png -o vit.html
        regard look mine.py:make_model "The cat sat." -o mine.html
        regard look kept.seen --show compare --head 2,4 -o two-heads.svg
    """
    from regard.viewer.figure.matrix import check_format
    from regard.viewer.page.opening import opening
    from regard.viewer.selection import choose, run_of, values_of
    from regard.views import ViewOptions

    kept = folder.endswith(".seen")
    if kept and inputs:
        raise RequestError(f"{folder} has its inputs in it: expected no other, got {inputs[0]!r}")
    if not kept and not inputs:
        raise RequestError("expected an INPUT to look at, got none")
    for text in (*(inputs or ()), target or ""):
        if any("\ud800" <= letter <= "\udfff" for letter in text) and not os.path.exists(text):
            raise RequestError(f"{text!a}: not UTF-8")
    if browser and not serve:
        output = page_to_open(output)
    page = output is not None and output.suffix.lower() in PAGES
    if output is not None and not page:
        check_format(output)
    inches = _width(width)
    chosen = {"show": show, "kind": kind, "layer": layer, "head": "" if head == "mean" else head}
    refuse_unused(
        folder,
        output,
        serve=serve,
        as_json=as_json,
        port=port,
        width=width,
        of_file={
            "show": show,
            "hypothesis": hypothesis != 1,
            **chosen,
            "step": step is not None,
            "pieces": pieces,
            "values": values,
        },
        of_model={
            "target": target is not None,
            "measure": measure != "weights",
            "why": why,
            "set": changes,
            "threads": threads is not None,
            "graph": graph is not None,
        },
    )
    every = page or serve or bool(show)
    options = ViewOptions(target, measure, None if every else hypothesis, why, folder)
    if folder.startswith("hf:"):
        source = _of_transformers(folder, options, longest, changes, threads, graph)
    elif ".py:" in folder:
        if longest is not None:
            raise RequestError("--max is for hf:FOLDER; leave it out")
        source = _of_script(folder, options, changes, threads, graph)
    elif longest is not None:
        raise RequestError("--max is for hf:FOLDER; of a trained folder, --set max_length=N")
    else:
        loaded = None if kept else open_folder(folder, changes, threads=threads, graph=graph)
        source = _of_folder(folder, loaded, options)
    if serve or (page and output is not None):
        view = source(inputs or [])
        state = opening(
            view,
            hypothesis=hypothesis,
            show=show,
            kind=kind,
            layer=layer,
            head=head,
            row=step,
            words=not pieces,
            values=values,
        )
        if serve:
            serve_view(view, port or 0, state, browser=browser)
        elif output is not None:
            put_page(view, output, as_json=as_json, state=state)
            if browser:
                open_browser(output.resolve().as_uri())
        return
    for number, view in enumerate(map(source, [[one] for one in inputs or []] or [[]]), 1):
        run = run_of(view, hypothesis)
        panels = choose(view, run, show=show, kind=kind, layer=layer, head=head, row=step)
        path = output
        if output is not None and len(inputs or []) > 1:
            path = output.with_stem(f"{output.stem}-{number}")
        if path is not None:
            put_figure(view, run, panels, path, words=not pieces, values=values, width=inches)
        if as_json:
            named = any(chosen.values()) or step is not None or pieces
            found = values_of(view, view.runs[run], panels, words=not pieces, weights=named)
            emit({**found, "file": None if path is None else str(path)})
        elif path is None:
            put_terminal(view, run, panels, words=not pieces, values=values)
    if output is None and not as_json and sys.stdout.isatty():
        say("--open shows it as a page, with every layer and head")


def _of_folder(folder: str, loaded: "Loaded | None", options: "ViewOptions") -> "Source":
    """Gives the view of some inputs; of a file, the one that it has."""
    from regard.viewer import drawable, read

    def source(inputs: Sequence[str]) -> "DrawableView":
        return (
            read(folder) if loaded is None else drawable(loaded.task.view(loaded, inputs, options))
        )

    return source


def _of_transformers(
    folder: str,
    options: "ViewOptions",
    longest: int | None,
    changes: list[str] | None,
    threads: int | None,
    graph: str | None,
) -> "Source":
    """The same of a Hugging Face folder."""
    from regard.watching.huggingface.opening import open_transformers

    _not_trained(folder, changes, threads, graph)
    model = open_transformers(folder)
    return lambda inputs: model.view(inputs, options, longest)


def _of_script(
    folder: str,
    options: "ViewOptions",
    changes: list[str] | None,
    threads: int | None,
    graph: str | None,
) -> "Source":
    """The same of a model that a function of a script makes."""
    from regard.watching.script import open_script

    _not_trained(folder, changes, threads, graph)
    model = open_script(folder)
    return lambda inputs: model.view(inputs, options)


def _not_trained(
    folder: str, changes: list[str] | None, threads: int | None, graph: str | None
) -> None:
    if changes or graph is not None:
        raise RequestError(f"--set and --graph are for trained folders, not for {folder}")
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def _width(text: str) -> float | str | None:
    """Inches, or a name that is checked where it is drawn.

    Raises:
        RequestError: not a number of inches that a figure can have.
    """
    from regard.viewer.figure.matrix import check_width

    try:
        width: float | str | None = float(text) if text else None
    except ValueError:
        width = text
    check_width(width)
    return width
