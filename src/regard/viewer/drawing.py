"""Any view of a page as a figure for a paper: PNG, PDF or SVG, drawn by matplotlib.

view.figure("lines.pdf", show="lines", head=[2, 5], row=4, width="column")
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard.errors import RequestError, nearest
from regard.viewer.content import Shown, hops_of, names_of, relative, shown, title_of
from regard.viewer.figure.matrix import (
    COLUMN,
    PAGE,
    _inches,
    _matplotlib,
    _quiet,
    _save,
    check_format,
)
from regard.viewer.figure.matrix import alignment as draw_alignment
from regard.viewer.figure.matrix import grid as draw_grid
from regard.viewer.figure.sheet import Subplot, style
from regard.viewer.labels import visible, with_visible_labels
from regard.viewer.panels import graph, matrix, text
from regard.viewer.panels.kind import MapKind
from regard.viewer.panels.registry import PANEL_KINDS, map_kind
from regard.views import MapPanel, Panel, Run, View
from regard.views.picture import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "figure"]

MATRICES = ("matrix", "heads", "hops")
PIECES = ("image", "graph", "neighbors")
"""Views whose places are no words."""


def figure(
    view: View,
    path: str | Path | None = None,
    *,
    show: str = "matrix",
    attention: str | int = 0,
    head: int | Sequence[int] | None = None,
    row: int | None = None,
    run: int = 0,
    other: tuple[int, str | int, int | None] | None = None,
    words: bool = True,
    width: float | str | None = None,
    values: bool = False,
    title: str | None = None,
) -> "Figure":
    """Draw one view of what a page shows.

    Args:
        path: also write it there: .png, .pdf or .svg.
        show: a kind of picture of a map; see `views.KINDS`.
        attention: a map's name, or its place in the run.
        head: counted from 1; several for lines and arcs; the mean of all where None.
        row: counted from 1; all, or the first where only one can be drawn, where None.
        run: which input or hypothesis, from 0.
        other: what `compare` compares with: (run, attention, head).
        words: pieces put together to words; else pieces.
        width: in inches, or "column" (3.35) or "page" (6.9).
        values: numbers in cells.
        title: in small letters above.

    Raises:
        RequestError: no such view, map, head or row, or a format that is not had.
    """
    if path is not None:
        check_format(path)
    known = [name for name, kind in PANEL_KINDS.items() if isinstance(kind, MapKind)]
    if show not in known:
        raise RequestError(f"no view is called {show!r}; {nearest(show, known)}")
    m = _map(view, run, attention)
    heads = () if head is None else (head,) if isinstance(head, int) else tuple(head)
    panel = MapPanel(show, map=m, heads=heads, row=row)
    if show == "compare":
        run_2, attention_2, head_2 = other or (run, attention, 1)
        panel = replace(panel, other=(_map(view, run_2, attention_2), head_2))
    mark = row if show == "matrix" else None
    return draw(
        view,
        view.runs[run],
        [panel],
        path,
        words=words,
        width=width,
        values=values,
        title=title or "",
        mark=mark,
    )


def draw(
    view: View,
    run: Run,
    panels: Sequence[Panel],
    path: str | Path | None = None,
    *,
    words: bool = True,
    width: float | str | None = None,
    values: bool = False,
    title: str | None = None,
    mark: int | None = None,
) -> "Figure":
    """Draw panels of a run as one figure: those of the first one's kind.

    Matrices and neighborhoods stand side by side, texts one below the other; of other kinds the
    first panel is drawn.

    Args:
        path: also write it there: .png, .pdf or .svg.
        words, width, values: as in `figure`.
        title: in small letters above; says what is shown where None.
        mark: frame this row of a matrix, counted from 1, in place of showing it alone.

    Raises:
        RequestError: there is no panel, or it cannot be drawn of such a map.
    """
    if path is not None:
        check_format(path)
    if not panels:
        raise RequestError("there is nothing to draw: the view has no picture")
    view, run = with_visible_labels(view), with_visible_labels(run)
    panels = with_visible_labels(list(panels))
    title = None if title is None else visible(title)
    same = [panel for panel in panels if panel.kind == panels[0].kind]
    first = same[0]
    if isinstance(first, MapPanel):
        maps = [panel for panel in same if isinstance(panel, MapPanel)]
        if first.kind in MATRICES:
            several = len({p.map for p in maps}) > 1
            matrices = [
                (p, one) for p in maps for one in _split(view, run, p, words, mark, several)
            ]
            return _matrices(view, run, matrices, path, width, title, mark, values=values)
        said = title
        if said is None and len(maps) > 1 and first.kind in ("neighbors", "text"):
            said = run.title
        elif said is None:
            said = title_of(view, run, first, heads=False)
        with _quiet(), _matplotlib().rc_context(style()):
            return _saved(
                _map_figure(view, run, maps, said, _inches(width), words=words, values=values), path
            )
    said = title if title is not None else " · ".join(t for t in (run.title, first.title) if t)
    inches = _inches(width) or COLUMN
    kind = PANEL_KINDS[first.kind]
    if kind.several and len(same) > 1 and title is None:
        said = run.title
    assert kind.figure is not None
    with _quiet(), _matplotlib().rc_context(style()):
        return _saved(kind.figure(same, inches, said, values=values), path)


def _saved(made: "Figure", path: str | Path | None) -> "Figure":
    if path is not None:
        _save(made, Path(path))
    return made


def _map_figure(
    view: View,
    run: Run,
    panels: Sequence[MapPanel],
    title: str,
    width: float | None,
    *,
    words: bool,
    values: bool,
) -> "Figure":
    panel = panels[0]
    if panel.kind == "neighbors":
        named = [(names_of(view, p, layer=True), p) for p in panels]
        return graph.neighbors(view, named, width, title)
    if panel.kind == "text" and len(panels) > 1:
        texts = [
            (p.title, shown(view, p, words=words), None if p.row is None else p.row - 1)
            for p in panels
        ]
        return text.texts(texts, width or PAGE, title, values=values)
    words = words and panel.kind not in PIECES
    every = range(1, view.maps[panel.map].shape[0] + 1) if panel.kind == "features" else None
    found = shown(view, panel, words=words, heads=every)
    more: dict[str, Any] = {}
    if panel.kind == "compare":
        m, head = panel.other or (panel.map, 1)
        more["other"] = shown(view, MapPanel("compare", map=m), words=words, heads=[head])
    kind = map_kind(panel)
    assert kind.figure is not None
    row = None if panel.row is None else panel.row - 1
    made: Figure = kind.figure(found, width or kind.width, row, title, values=values, **more)
    return made


def _split(
    view: View, run: Run, panel: MapPanel, words: bool, mark: int | None, layer: bool
) -> list[tuple[str, Shown]]:
    """The matrices of one panel, a name and a single matrix each."""
    if panel.kind == "hops":
        return [(panel.title, hops_of(view, run, panel, words=words))]
    heads: Sequence[int | None] = panel.heads or (None,)
    if panel.kind == "heads" and not panel.heads:
        heads = range(1, view.maps[panel.map].shape[0] + 1)
    found = []
    for head in heads:
        own = replace(panel, heads=() if head is None else (head,))
        one = shown(view, own, words=words)
        weights = relative(view.maps[panel.map], one.weights[0])
        rows = one.rows
        if panel.row is not None and mark is None:
            rows, weights = rows[panel.row - 1 : panel.row], weights[panel.row - 1 : panel.row]
        found.append((names_of(view, own, layer=layer), replace(one, rows=rows, weights=[weights])))
    return found


def _matrices(
    view: View,
    run: Run,
    matrices: Sequence[tuple[MapPanel, tuple[str, Shown]]],
    path: str | Path | None,
    width: float | str | None,
    title: str | None,
    mark: int | None,
    *,
    values: bool,
) -> "Figure":
    pictures = [
        (name, one, Picture(one.rows, one.columns, torch.from_numpy(np.array(one.weights[0]))))
        for _, (name, one) in matrices
    ]
    first = matrices[0][0]
    if len(pictures) == 1:
        said = title_of(view, run, first) if title is None else title
        return draw_alignment(
            pictures[0][2],
            path,
            title=said,
            width=width,
            values=values or first.kind == "hops",
            mark=None if mark is None else mark - 1,
        )
    layers = {panel.map for panel, _ in matrices}
    if title is None:
        title = run.title or title_of(view, run, first, heads=False, layer=len(layers) == 1)
    if len({(tuple(one.rows), tuple(one.columns)) for _, one, _ in pictures}) > 1:
        with _quiet(), _matplotlib().rc_context(style()):
            stack = [(name, one) for name, one, _ in pictures]
            inches = _inches(width) or PAGE
            return _saved(matrix.stacked(stack, inches, title, values=values), path)
    heads = len(pictures) // len(layers)
    across = heads if len(layers) > 1 and heads > 1 else None
    grid = [Subplot(name, picture) for name, _, picture in pictures]
    return draw_grid(grid, path, across=across, title=title, width=width)


def _map(view: View, run: int, attention: str | int) -> int:
    """The place in the view of a run's map."""
    if not 0 <= run < len(view.runs):
        raise RequestError(f"there is no run {run}: there are 0 to {len(view.runs) - 1}")
    places = view.runs[run].maps
    if isinstance(attention, int):
        if not 0 <= attention < len(places):
            raise RequestError(f"there is no attention {attention}: 0 to {len(places) - 1}")
        return places[attention]
    named = {view.maps[m].name: m for m in reversed(places)}
    if attention not in named:
        raise RequestError(f"no attention called {attention!r}; {nearest(attention, named)}")
    return named[attention]
