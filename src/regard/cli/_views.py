"""`regard look --show`, `--serve` and of `.seen` files: what a page shows, in whichever medium."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli._common import say
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.viewer import View

__all__ = ["PAGES", "put", "serve"]

PAGES = (".html", ".htm", ".seen")


def put(
    view: "View", output: Path | None, *, show: str, kind: str, layer: str, head: str,
    hypothesis: int, **options: Any,
) -> None:  # fmt: skip
    """Write a page, a `.seen` file, or a figure of one of its views.

    Raises:
        RequestError: nowhere to write it, or nothing of that kind, layer or head.
    """
    if output is None:
        raise RequestError("where to? -o page.html, kept.seen, figure.pdf, .png, .svg, or --serve")
    if output.suffix.lower() in PAGES:
        (view.save if output.suffix.lower() == ".seen" else view.page)(output)
        say(f"{output}: {len(view.runs)} run(s), {output.stat().st_size:,} bytes")
        return
    run = hypothesis - 1
    if not 0 <= run < len(view.runs):
        raise RequestError(f"there is no hypothesis {hypothesis}: there are {len(view.runs)}")
    at = _attention(view, run, kind, layer)
    heads = _heads(head, view.maps[view.runs[run].maps[at]].shape[0])
    several = len(heads) > 1
    if show == "compare":
        if several:
            options["other"], heads = (run, at, heads[1]), heads[:1]
        else:
            options["other"] = ((run + 1) % len(view.runs), at, heads[0] if heads else None)
    chosen: Any = heads if several else heads[0] if heads else None
    view.figure(output, show=show or "matrix", run=run, attention=at, head=chosen, **options)
    say(f"{output}: {view.runs[run].output or view.title}")


def serve(view: "View", port: int) -> None:
    """Until it is interrupted."""
    with view.serve(port) as live:
        say(f"{live.address}  (Ctrl-C ends it)")
        try:
            live.wait()
        except KeyboardInterrupt:
            say("closed")


def _attention(view: "View", run: int, kind: str, layer: str) -> int:
    """The place of a kind's layer among a run's maps; the kind's last layer by default."""
    maps = [view.maps[m] for m in view.runs[run].maps]
    kinds = [one.kind for one in maps]
    if kind and kind not in kinds:
        known = ", ".join(dict.fromkeys(kinds))
        raise RequestError(f"there is no {kind} attention; there is: {known}")
    wanted = kind or ("cross" if "cross" in kinds else kinds[0])
    there = [i for i, own in enumerate(kinds) if own == wanted]
    if not layer:
        return there[-1]
    found = [i for i in there if str(maps[i].layer) == layer]
    if not found:
        layers = ", ".join(str(maps[i].layer) for i in there)
        raise RequestError(f"there is no layer {layer} of {wanted} attention; there is: {layers}")
    return found[0]


def _heads(text: str, count: int) -> Sequence[int]:
    """None for the mean, else those that are named, or all."""
    if text in ("mean", ""):
        return []
    if text == "all":
        return range(1, count + 1)
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        said = f"--head: expected numbers from 1 up, mean or all; got {text!r}"
        raise RequestError(said) from None
