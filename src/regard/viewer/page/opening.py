"""What a page opens with: the run, map, head, row and picture that were chosen before."""

from collections.abc import Callable, Mapping
from typing import Any

from regard.errors import RequestError
from regard.viewer.overview import wants_overview
from regard.viewer.selection import ALL, MEAN, choose, run_of
from regard.views import Map, MapPanel, Run, View

__all__ = ["opening", "pictures_of"]

LARGE = ("matrix", "lines", "heads", "curves", "compare")
"""Pictures that a page has of every map, also of those too large to be kept whole."""


def _hops(view: View, run: Run, one: Map) -> bool:
    memory = view.axes[one.columns].kind == "memory"
    return memory or any("hop" in view.maps[m].scope for m in run.maps)


def _graph(view: View, run: Run, one: Map) -> bool:
    axis = view.axes[one.columns]
    nodes = axis.kind == "nodes" or bool(axis.edges)
    return one.rows == one.columns and nodes and one.shape[1] <= 1500


_FITS: Mapping[str, Callable[[View, Run, Map], bool]] = {
    "arcs": lambda view, run, one: one.rows == one.columns and one.shape[1] <= 400,
    "text": lambda view, run, one: view.axes[one.columns].kind in ("text", "steps", "memory"),
    "hops": _hops,
    "pointer": lambda view, run, one: one.kind == "pointer" or "generate" in one.extra,
    "features": lambda view, run, one: one.kind == "features",
    "image": lambda view, run, one: view.axes[one.columns].grid is not None,
    "sound": lambda view, run, one: view.axes[one.columns].kind == "audio",
    "graph": _graph,
}
"""Which maps a page draws so; `fits` of each view in the page's script says the same."""


def pictures_of(view: View, run: Run, one: Map) -> list[str]:
    """The pictures that a page has of a map."""
    if one.pool != (1, 1) or wants_overview(view, one):
        return list(LARGE)
    return [*LARGE, *(name for name, fits in _FITS.items() if fits(view, run, one))]


def opening(
    view: View,
    *,
    hypothesis: int = 1,
    show: str = "",
    kind: str = "",
    layer: str = "",
    head: str = "",
    row: int | None = None,
    words: bool = True,
    values: bool = False,
) -> dict[str, Any]:
    """The state of a page that opens with this choice; see `viewer.selection.choose`.

    A page has every run, map and head, so "all" leaves the choice of them to the page.

    Args:
        hypothesis: counted from 1.
        words: pieces put together to words.
        values: numbers in cells.

    Raises:
        RequestError: there is no such hypothesis, picture, kind, layer, head or row, or pages do
            not have it.
    """
    state: dict[str, Any] = {}
    if not words:
        state["words"] = 0
    if values:
        state["values"] = 1
    runs = [run for run in view.runs if run.maps]  # a page leaves out the others
    place = run_of(view, hypothesis) if hypothesis != 1 else 0
    asked = bool(show or kind or layer or head not in ("", MEAN)) or row is not None
    if not asked and not place:
        return state
    run = view.runs[place]
    if run not in runs:
        raise RequestError("there is no attention to show of this input")
    state["run"] = runs.index(run)
    if not asked:
        return state
    panels = choose(view, place, show=show, kind=kind, layer=layer, head=head, row=row)
    first = next((panel for panel in panels if isinstance(panel, MapPanel)), None)
    if first is None:
        raise RequestError(f"show: {show!r} stands beside the pictures of every page; leave it out")
    heads = [h for panel in panels if isinstance(panel, MapPanel) for h in panel.heads]
    heads = list(dict.fromkeys(heads))
    count = view.maps[first.map].shape[0]
    if any(not 1 <= h <= count for h in heads):
        raise RequestError(
            f"there is no head {max(heads)}: {view.maps[first.map].name} has 1 to {count}"
        )
    state["at"] = run.maps.index(first.map)
    there = pictures_of(view, run, view.maps[first.map])
    if show and show not in there:
        raise RequestError(
            f"show: a page has no picture {show!r} of this attention; there is: {', '.join(there)}"
        )
    if show == "compare" and first.other is not None:
        state |= _compared(runs, first, state["at"], state["run"])
    if show:
        state["view"] = show
    elif head == ALL and count > 1:
        state["view"] = "heads"
    if len(heads) == 1:
        state["head"] = heads[0] - 1
    elif heads and head != ALL:
        state["on"] = ".".join(str(h - 1) for h in heads)
        state["head"] = heads[0] - 1
    if row is not None:
        state["row"] = row - 1
    return state


def _compared(runs: list[Run], panel: MapPanel, at: int, run: int) -> dict[str, str]:
    """What a page compares: places as run.map.head, heads counted from 0."""
    first = panel.heads[0] - 1 if panel.heads else "mean"
    m, head = panel.other or (panel.map, None)
    other = run if m in runs[run].maps else next(i for i, r in enumerate(runs) if m in r.maps)
    second = "mean" if head is None else head - 1
    return {"a": f"{run}.{at}.{first}", "b": f"{other}.{runs[other].maps.index(m)}.{second}"}
