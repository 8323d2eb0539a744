"""Which panels of a view are meant: by kind of picture, attention, layer, head and row."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from regard.errors import RequestError, nearest
from regard.viewer.content import relative, shown
from regard.views import KINDS, MapPanel, Panel, Run, TreeNode, TreePanel, View
from regard.views.numbers import decimal

__all__ = ["choose", "run_of", "values_of"]

ALL, MEAN = "all", "mean"
TOGETHER = ("lines", "arcs", "heads")
"""Kinds of pictures that have several heads in one."""
EVERY = ("hops", "neighbors", "features")
"""Kinds of pictures that have every head, or every hop, at once."""


def run_of(view: View, hypothesis: int) -> int:
    """The place of a hypothesis among the runs of one input, from 1; of a kept file, of any run.

    Raises:
        RequestError: there is none of that number.
    """
    numbers = [run.number for run in view.runs]
    if hypothesis >= 1 and hypothesis in numbers and len(set(numbers)) == len(numbers):
        return numbers.index(hypothesis)
    if not 1 <= hypothesis <= len(view.runs):
        raise RequestError(f"there is no hypothesis {hypothesis}: there are {len(view.runs)}")
    return hypothesis - 1


def choose(
    view: View,
    run: int = 0,
    *,
    show: str = "",
    kind: str = "",
    layer: str = "",
    head: str = "",
    row: int | None = None,
) -> list[Panel]:
    """The panels that are asked for; those that the run comes with where nothing is.

    Args:
        run: its place in the view.
        show: a key of `views.KINDS`.
        kind: of attention, as "cross".
        layer: counted from 1, or "all"; the last where not given.
        head: counted from 1, several with commas, "all", or "mean".
        row: counted from 1.

    Raises:
        RequestError: there is no such picture, kind, layer, head or row.
    """
    own = view.runs[run]
    if show and show not in KINDS:
        raise RequestError(f"no view is called {show!r}; {nearest(show, KINDS)}")
    head = "" if head == MEAN else head
    if show and show not in MapPanel.known():
        return _values(view, own, show)
    if not (show or kind or layer or head) and own.panels:
        chosen = list(own.panels)
    else:
        chosen = _maps(view, run, show, kind, layer, head)
    if row is None:
        return chosen
    maps = [panel for panel in chosen if isinstance(panel, MapPanel)]
    if not maps:
        raise RequestError("step: this view has no picture with rows; leave it out")
    return [_of_row(view, panel, row) for panel in maps]


def values_of(
    view: View, run: Run, panels: Sequence[Panel], *, words: bool = True, weights: bool = False
) -> dict[str, Any]:
    """Plain values: the words and the weights of what is shown, or what the task says of it.

    Args:
        weights: give the weights beside what the task says: some of them were asked for.
    """
    if run.result and not weights:
        return dict(run.result)
    made: dict[str, Any] = {
        "input": run.input,
        "output": run.output,
        "score": run.score,
        "hypothesis": run.number,
        "of": run.of,
        "rows": [],
        "columns": [],
        "pictures": [],
    }
    for panel in panels:
        if not isinstance(panel, MapPanel):
            continue
        one = view.maps[panel.map]
        heads: Sequence[int | None] = panel.heads or (None,)
        found = shown(view, panel, words=words, heads=heads)
        rows = found.rows if panel.row is None else found.rows[panel.row - 1 : panel.row]
        if not made["pictures"]:
            made |= {"rows": rows, "columns": found.columns}
        for number, values in zip(heads, found.weights, strict=True):
            own = relative(one, values)
            own = own if panel.row is None else own[panel.row - 1 : panel.row]
            made["pictures"].append(
                {
                    "attention": one.name,
                    "layer": one.layer,
                    "show": panel.kind,
                    "head": MEAN if number is None else number,
                    "weights": [[round(float(w), 5) for w in line] for line in own],
                }
            )
    return made | run.result


def _values(view: View, run: Run, show: str) -> list[Panel]:
    """Panels of numbers, tables and trees are as the task gives them."""
    found = [panel for panel in run.panels if panel.kind == show]
    if not found and show == "tree":
        found = _hypotheses(view, run)
    if not found:
        there = list(dict.fromkeys(panel.kind for panel in run.panels))
        raise RequestError(
            f"there is no {show} to show of this input; there is: {', '.join(there)}"
        )
    return found


def _maps(view: View, run: int, show: str, kind: str, layer: str, head: str) -> list[Panel]:
    own = view.runs[run]
    usual = [panel for panel in own.panels if isinstance(panel, MapPanel)]
    picture = show or (usual[0].kind if usual else "matrix")
    asked = {"head": head, "layer": layer} if picture == "hops" else {"head": head}
    for name, value in asked.items():
        if value and picture in EVERY:
            raise RequestError(
                f"{name}: the picture {picture!r} has every {name} at once; leave it out, or say "
                "show=matrix"
            )
    chosen: list[Panel] = []
    for m in _layers(view, own, kind, layer):
        like = next((p for p in usual if p.map == m and p.kind == picture), None)
        base = like or MapPanel(picture, map=m)
        heads = _heads(head, view.maps[m].shape[0])
        if picture == "compare":
            chosen.append(_compared(view, run, m, heads))
        elif picture in TOGETHER or not heads:
            chosen.append(replace(base, heads=heads))
        else:
            chosen += [replace(base, heads=(h,)) for h in heads]
    return chosen


def _layers(view: View, run: Run, kind: str, layer: str) -> list[int]:
    """The places of a kind's layers; the kind's last by default."""
    kinds = list(dict.fromkeys(view.maps[m].kind for m in run.maps))
    if not kinds:
        raise RequestError("there is no attention to show of this input")
    there = ", ".join(kinds)
    if kind and kind not in kinds:
        hint = nearest(kind, kinds)
        hint = f"; {hint}" if hint.startswith("did you") else ""
        raise RequestError(f"there is no {kind} attention{hint}; there is: {there}")
    wanted = kind or ("cross" if "cross" in kinds else kinds[0])
    places = [m for m in run.maps if view.maps[m].kind == wanted]
    if not layer:
        return places[-1:]
    if layer == ALL:
        return places
    if not layer.isdecimal():
        raise RequestError(f"--layer: expected a number from 1 up, or all; got {layer!r}")
    found = [m for m in places if view.maps[m].layer == int(layer)]
    if not found:
        layers = ", ".join(str(view.maps[m].layer) for m in places)
        raise RequestError(f"there is no layer {layer} of {wanted} attention; there is: {layers}")
    return found[:1]


def _heads(text: str, count: int) -> tuple[int, ...]:
    """None for the mean, else those that are named, or all."""
    if not text:
        return ()
    if text == ALL:
        return tuple(range(1, count + 1))
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        said = f"--head: expected numbers from 1 up, mean or all; got {text!r}"
        raise RequestError(said) from None


def _compared(view: View, run: int, m: int, heads: tuple[int, ...]) -> MapPanel:
    """With a second head; else with the same map of the next run."""
    if len(heads) > 1:
        return MapPanel("compare", map=m, heads=heads[:1], other=(m, heads[1]))
    following = view.runs[(run + 1) % len(view.runs)]
    at = view.runs[run].maps.index(m)
    other = following.maps[min(at, len(following.maps) - 1)]
    return MapPanel("compare", map=m, heads=heads, other=(other, heads[0] if heads else None))


def _of_row(view: View, panel: MapPanel, row: int) -> MapPanel:
    count = len(shown(view, replace(panel, row=None)).rows)
    if panel.kind == "hops":
        count = 1
    if not 1 <= row <= count:
        raise RequestError(f"there is no step {row}: the picture has rows 1 to {count}")
    return replace(panel, row=row)


def _hypotheses(view: View, run: Run) -> list[Panel]:
    """The beam of this input as a tree: what several hypotheses begin with is written once."""
    beam = [one for one in view.runs if one.number and one.input == run.input]

    def words(one: Run) -> list[str]:
        maps = [view.maps[m] for m in one.maps if view.maps[m].kind != "encoder"]
        axis = view.axes[maps[0].rows] if maps else None
        return one.output.split() if axis is None else list(axis.texts or axis.pieces)

    def below(group: Sequence[tuple[list[str], str]], at: int) -> tuple[TreeNode, ...]:
        parts: dict[tuple[bool, str], list[tuple[list[str], str]]] = {}
        for own, score in group:
            ended = at >= len(own)
            parts.setdefault((ended, score if ended else own[at]), []).append((own, score))
        return tuple(
            TreeNode(label, () if ended else below(inside, at + 1))
            for (ended, label), inside in parts.items()
        )

    told = [(words(one), f"({one.number}: {decimal(one.score or 0.0)})") for one in beam]
    return [TreePanel(title="hypotheses", root=TreeNode("", below(told, 0)))] if beam else []
