"""`regard look`: what a model attends to, in the terminal or as a figure for a paper."""

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli._common import Json, emit, print_result, say
from regard.cli._folder import Changes, OfGraph, Threads, open_folder
from regard.cli._views import PAGES, put
from regard.cli._views import serve as serve_view
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.store import Loaded
    from regard.viewer import View
    from regard.viewer.looking import Look

__all__ = ["look"]

ALL = "all"
OWN = {
    "reading": "regard.viewer.reading",
    "memory": "regard.viewer.stories",
    "language": "regard.viewer.language",
    "graphs": "regard.viewer.neighborhoods",
}
"""Tasks that show themselves: modules with `look(loaded, text)`, which gives something that has
`text(colour=)` and `as_json()`, and with `view(looks, folder=)` and `draw(look, path, width=)`."""


def look(
    folder: Annotated[
        str,
        typer.Argument(metavar="FOLDER", help="A trained folder, a shipped name, or a .seen file."),
    ],
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT...", help="What to look at.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help=".html, .seen, .png, .pdf or .svg."),
    ] = None,
    show: Annotated[
        str, typer.Option(metavar="VIEW", help="Draw this view: lines, arcs, text, compare, …")
    ] = "",
    serve: Annotated[
        bool, typer.Option("--serve", help="The page at an address of this machine.")
    ] = False,
    port: Annotated[int, typer.Option(metavar="N", help="Of --serve; 0: one that is free.")] = 0,
    hypothesis: Annotated[int, typer.Option(metavar="N", help="Of the beam; 1 is the best.")] = 1,
    layer: Annotated[str, typer.Option(metavar="N|all", help="From 1 up; default: the last.")] = "",
    head: Annotated[
        str, typer.Option(metavar="N|N,M|all|mean", help="From 1 up; all: small multiples.")
    ] = "mean",
    kind: Annotated[
        str, typer.Option(metavar="cross|decoder|encoder", help="Which attention: cross.")
    ] = "",
    step: Annotated[int | None, typer.Option(metavar="N", help="One output word alone.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Look at this output, not the model's own.")
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
        bool, typer.Option("--why", help="How the score changes without each head.")
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
        regard look de-en-small "Guten Morgen." --serve
        regard look kept.seen --show compare --head 2,4 -o two-heads.svg
    """
    from regard.viewer.figure import check_format
    from regard.viewer.looking import look as observe

    kept = folder.endswith(".seen")
    if kept and inputs:
        raise RequestError(f"{folder} has its inputs in it: expected no other, got {inputs[0]!r}")
    if not kept and not inputs:
        raise RequestError("expected an INPUT to look at, got none")
    inputs = inputs or []
    opened = partial(open_folder, folder, changes, threads=threads, graph=graph)
    if kept or show or serve:
        view = _kept(folder) if kept else _view(folder, opened(), inputs, target, measure)
        if serve:
            serve_view(view, port)
            return
        put(view, output, show=show, kind=kind, layer=layer, head=head, hypothesis=hypothesis,
            words=not pieces, row=step, values=values, width=_width(width))  # fmt: skip
        return
    kind = kind or "cross"
    if _shows_itself(folder):
        _own(folder, opened(), inputs, output, width=_width(width), as_json=as_json)
        return
    if why:
        loaded = opened()
        for text in inputs:
            _why(loaded, text, target, as_json=as_json)
        return
    if output is not None and output.suffix.lower() in PAGES:
        _page(folder, opened(), inputs, output, target, measure, as_json=as_json)
        return
    if output is not None:
        check_format(output)
    loaded = opened()
    for number, text in enumerate(inputs, start=1):
        seen = observe(loaded, text, hypothesis=hypothesis, target=target, measure=measure)
        chosen = _chosen(seen, layer, head, kind)
        shown = _Shown(seen, chosen, kind, words=not pieces, step=step)
        path = output
        if output is not None and len(inputs) > 1:
            path = output.with_stem(f"{output.stem}-{number}")
        if path is not None:
            shown.draw(path, values=values, width=_width(width))
            say(f"{path}: {seen.output}")
        if as_json:
            emit(shown.as_json(path))
        elif path is None:
            shown.print(values=values)


def _why(loaded: "Loaded", text: str, target: str | None, *, as_json: bool) -> None:
    """A table of what each head and attention did for the output."""
    from regard.cli._common import columns
    from regard.viewer.why import why as ask

    output, score, effects = ask(loaded, text, target)
    if as_json:
        rows = [asdict(effect) for effect in effects]
        emit({"input": text, "output": output, "log_prob": score, "effects": rows})
        return
    head = ("ATTENTION", "CHANGE MADE", "LOG-PROBABILITY")
    table = [(e.attention, e.what, f"{e.change:+.3f}".replace("-", "−")) for e in effects]
    print_result(f"{text}\n{output}\n\n{columns([head, *table])}\n")
    print_result(
        f"The output has log-probability {score:.3f}. What changes little did not matter for this "
        "output alone; several heads may do the same work."
    )


def _page(
    folder: str,
    loaded: "Loaded",
    inputs: Sequence[str],
    output: Path,
    target: str | None,
    measure: str,
    *,
    as_json: bool,
) -> None:
    """One file with everything: all inputs, hypotheses, layers and heads."""
    from regard.viewer._watched import of_looks

    looks = _looks(loaded, inputs, target, measure)
    view = of_looks(looks, folder=folder)
    (view.save if output.suffix.lower() == ".seen" else view.page)(output)
    say(f"{output}: {len(looks)} hypothesis(es), {output.stat().st_size:,} bytes")
    if as_json:
        found = [{"input": k.input, "output": k.output, "score": k.score} for k in looks]
        emit({"file": str(output), "bytes": output.stat().st_size, "hypotheses": found})


def _looks(
    loaded: "Loaded", inputs: Sequence[str], target: str | None, measure: str
) -> "list[Look]":
    """All hypotheses of all inputs, or the one output that is given."""
    from regard.viewer.looking import look as observe
    from regard.viewer.looking import look_all

    looks: list[Look] = []
    for text in inputs:
        if target:
            looks.append(observe(loaded, text, target=target, measure=measure))
        else:
            looks += look_all(loaded, text, measure=measure)
    return looks


def _view(
    folder: str, loaded: "Loaded", inputs: Sequence[str], target: str | None, measure: str
) -> "View":
    """What a page of these inputs shows."""
    from importlib import import_module

    from regard.viewer._watched import of_looks

    if loaded.task.name in OWN:
        module = import_module(OWN[loaded.task.name])
        made: View = module.view([module.look(loaded, text) for text in inputs], folder=folder)
        return made
    return of_looks(_looks(loaded, inputs, target, measure), folder=folder)


def _kept(path: str) -> "View":
    from regard.viewer import read

    return read(path)


def _shows_itself(folder: str) -> bool:
    """Whether the folder's task is one of `OWN`; a folder that cannot be read says so later."""
    import json

    from regard import store

    try:
        config = json.loads((store.find(folder) / store.CONFIG).read_text("utf-8"))
        return config["task"]["name"] in OWN
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _own(
    folder: str,
    loaded: "Loaded",
    inputs: Sequence[str],
    output: Path | None,
    *,
    width: float | str | None,
    as_json: bool,
) -> None:
    """Tasks that show themselves: text shading, a figure for each input, or one page of all."""
    from importlib import import_module

    from rich.console import Console

    from regard.viewer.figure import check_format

    module = import_module(OWN[loaded.task.name])
    looks = [module.look(loaded, text) for text in inputs]
    page = output is not None and output.suffix.lower() in PAGES
    if output is not None and page:
        view = module.view(looks, folder=folder)
        (view.save if output.suffix.lower() == ".seen" else view.page)(output)
        say(f"{output}: {len(looks)} input(s), {output.stat().st_size:,} bytes")
    elif output is not None:
        check_format(output)
        for number, one in enumerate(looks, 1):
            path = output.with_stem(f"{output.stem}-{number}") if len(looks) > 1 else output
            module.draw(one, path, width=width)
            say(f"{path}: {one.as_json()['output']}")
    console = Console(highlight=False)
    colour = console.is_terminal and console.color_system is not None
    for one in looks:
        if as_json:
            emit(one.as_json() | {"file": None if output is None else str(output)})
        elif output is None:
            console.print(one.text(colour=colour and "NO_COLOR" not in os.environ))


def _chosen(seen: "Look", layer: str, head: str, kind: str) -> list[tuple[int, int | None]]:
    """Pairs of layer and head to show; None is the mean over heads."""
    names = seen.layers(kind)
    layers = range(1, len(names) + 1) if layer == ALL else [_number("layer", layer or len(names))]
    chosen: list[tuple[int, int | None]] = []
    for n in layers:
        heads: Sequence[int | None] = [None]
        if head == ALL:
            heads = range(1, seen.heads(n, kind) + 1)
        elif head != "mean":
            heads = [_number("head", head)]
        chosen += [(n, h) for h in heads]
    return chosen


def _number(what: str, text: str | int) -> int:
    try:
        return int(text)
    except ValueError:
        raise RequestError(f"--{what}: expected a number from 1 up, or all; got {text!r}") from None


def _width(text: str) -> float | str | None:
    try:
        return float(text) if text else None
    except ValueError:
        return text


class _Shown:
    """The pictures that were asked for, in whichever medium."""

    def __init__(
        self,
        seen: "Look",
        chosen: list[tuple[int, int | None]],
        kind: str,
        *,
        words: bool,
        step: int | None,
    ) -> None:
        self.seen, self.chosen, self.kind = seen, chosen, kind
        whole = [seen.picture(n, h, kind=kind, words=words) for n, h in chosen]
        self.pictures = whole if step is None else [picture.row(step) for picture in whole]

    def draw(self, path: Path, *, values: bool, width: float | str | None) -> None:
        """Write a figure."""
        from regard.viewer.figure import Panel, alignment, grid

        if len(self.chosen) == 1:
            title = self.seen.title(*self.chosen[0], kind=self.kind)
            alignment(self.pictures[0], path, title=title, width=width, values=values)
            return
        several = len({layer for layer, _ in self.chosen}) > 1
        panels: list[Panel] = [
            Panel(self._name(layer, head, several), picture)
            for (layer, head), picture in zip(self.chosen, self.pictures, strict=True)
        ]
        heads = len({head for _, head in self.chosen})
        title = self.seen.title(self.chosen[0][0], ALL, kind=self.kind)
        if several:
            title = " · ".join(p for p in title.split(" · ") if not p.startswith("layer "))
        across = heads if several and heads > 1 else None
        grid(panels, path, across=across, title=title, width=width)

    def print(self, *, values: bool) -> None:
        """Write the pictures to the terminal."""
        from rich.console import Console

        from regard.viewer.terminal import draw

        console = Console(highlight=False)
        colour = console.is_terminal and console.color_system is not None
        colour = colour and "NO_COLOR" not in os.environ
        width = console.width if sys.stdout.isatty() else max(console.width, 160)
        print_result(f"{self.seen.input}\n{self.seen.output}")
        for (layer, head), picture in zip(self.chosen, self.pictures, strict=True):
            title = self.seen.title(layer, head, kind=self.kind)
            text = draw(picture, width=width, colour=colour, values=values, title=title)
            console.print()
            console.print(text, soft_wrap=True)

    def as_json(self, path: Path | None) -> dict[str, Any]:
        """Plain values: the words and the weights."""
        seen, first = self.seen, self.pictures[0]
        names = seen.layers(self.kind)
        return {
            "input": seen.input,
            "output": seen.output,
            "score": seen.score,
            "hypothesis": seen.number,
            "of": seen.of,
            "rows": first.rows,
            "columns": first.columns,
            "pictures": [
                {
                    "attention": names[layer - 1],
                    "layer": layer,
                    "head": "mean" if head is None else head,
                    "weights": [[round(w, 5) for w in row] for row in picture.weights.tolist()],
                }
                for (layer, head), picture in zip(self.chosen, self.pictures, strict=True)
            ],
            "file": None if path is None else str(path),
        }

    @staticmethod
    def _name(layer: int, head: int | None, several: bool) -> str:
        parts = [f"layer {layer}"] if several else []
        return ", ".join([*parts, *([] if head is None else [f"head {head}"])])
