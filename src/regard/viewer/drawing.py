"""Any view of a page as a figure for a paper: PNG, PDF or SVG, drawn by matplotlib.

view.figure("lines.pdf", show="lines", head=[2, 5], row=4, width="column")
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import RequestError, nearest
from regard.viewer import _drawn, _drawn_kinds
from regard.viewer._drawn import Shown
from regard.viewer._page import Panel, style
from regard.viewer._view import Map, View
from regard.viewer.figure import COLUMN, PAGE, _inches, _matplotlib, _quiet, _save, check_format
from regard.viewer.figure import alignment as draw_alignment
from regard.viewer.figure import grid as draw_grid
from regard.viewer.picture import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SHOWS", "figure"]

Floats = NDArray[np.float32]

SHOWS: Mapping[str, tuple[Any, float]] = {
    "lines": (_drawn.lines, COLUMN), "arcs": (_drawn.arcs, COLUMN), "text": (_drawn.text, COLUMN),
    "curves": (_drawn.curves, COLUMN), "pointer": (_drawn_kinds.pointer, COLUMN),
    "features": (_drawn_kinds.features, COLUMN), "image": (_drawn_kinds.image, PAGE),
    "sound": (_drawn_kinds.sound, COLUMN), "graph": (_drawn_kinds.graph, COLUMN),
    "compare": (_drawn.compare, PAGE),
}  # fmt: skip
"""What draws each view, and its width where none is given."""

MATRICES = ("matrix", "heads", "hops")


@dataclass(frozen=True)
class _Place:
    """One map of a view, with words or pieces on its axes."""

    view: View
    one: Map
    words: bool

    def weights(self, head: int | None) -> Floats:
        """One head (from 1) or the mean of all: (rows, columns)."""
        heads = self.one.shape[0]
        if head is not None and not 1 <= head <= heads:
            raise RequestError(f"there is no head {head}: {self.one.name} has 1 to {heads}")
        if head is not None:
            found = self.one.load(head - 1)
        else:
            found = np.mean([self.one.load(h) for h in range(heads)], axis=0)
        rows, columns = self._groups(self.one.rows), self._groups(self.one.columns)
        if columns:
            found = np.stack([found[:, group].sum(1) for group in columns], 1)
        return np.stack([found[group].mean(0) for group in rows]) if rows else found

    def labels(self, side: int, pool: int) -> list[str]:
        """What stands on an axis."""
        given = self.view.sides[side]
        if pool > 1:
            return [f"{piece} …" for piece in given.pieces[::pool]]
        return list(given.texts) if self._groups(side) else list(given.pieces)

    def _groups(self, side: int) -> list[list[int]]:
        given = self.view.sides[side]
        return given.groups if self.words and self.one.pool == (1, 1) else []

    def shown(self, heads: Sequence[int | None]) -> Shown:
        """With everything that a drawing wants."""
        one = self.one
        return Shown(
            self.labels(one.rows, one.pool[0]), self.labels(one.columns, one.pool[1]),
            [self.weights(h) for h in heads], [self._name(h) for h in heads],
            self.view.sides[one.rows], self.view.sides[one.columns], one.extra,
            one.rows == one.columns,
        )  # fmt: skip

    def _name(self, head: int | None) -> str:
        if head is None:
            return f"mean of {self.one.shape[0]} heads" if self.one.shape[0] > 1 else ""
        return self.one.heads[head - 1] if self.one.heads else f"head {head}"


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
        show: matrix, heads, hops, or a key of `SHOWS`.
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
    known = (*MATRICES, *SHOWS)
    if show not in known:
        raise RequestError(f"no view is called {show!r}; {nearest(show, known)}")
    at = _Place(view, _map(view, run, attention), words and show not in ("image", "graph"))
    heads: Sequence[int | None] = [head] if head is None or isinstance(head, int) else list(head)
    shown = at.shown(heads)
    if row is not None and not 1 <= row <= len(shown.rows):
        raise RequestError(f"there is no row {row}: there are 1 to {len(shown.rows)}")
    if show in MATRICES:
        return _matrices(view, at, shown, show, path, run, row, width, title, values=values)
    more: dict[str, Any] = {}
    if show == "features":
        shown = at.shown(range(1, at.one.shape[0] + 1))
    if show == "compare":
        run_2, attention_2, head_2 = other or (run, attention, 1)
        place = _Place(view, _map(view, run_2, attention_2), words)
        more["other"] = place.shown([head_2])
    draw, usual = SHOWS[show]
    with _quiet(), _matplotlib().rc_context(style()):
        made: Figure = draw(
            shown, _inches(width) or usual, None if row is None else row - 1, title or "",
            values=values, **more,
        )  # fmt: skip
        if path is not None:
            _save(made, Path(path))
    return made


def _map(view: View, run: int, attention: str | int) -> Map:
    if not 0 <= run < len(view.runs):
        raise RequestError(f"there is no run {run}: there are 0 to {len(view.runs) - 1}")
    maps = [view.maps[m] for m in view.runs[run].maps]
    if isinstance(attention, int):
        if not 0 <= attention < len(maps):
            raise RequestError(f"there is no attention {attention}: 0 to {len(maps) - 1}")
        return maps[attention]
    named = {one.name: one for one in reversed(maps)}
    if attention not in named:
        raise RequestError(f"no attention called {attention!r}; {nearest(attention, named)}")
    return named[attention]


def _matrices(
    view: View, at: _Place, shown: Shown, show: str, path: str | Path | None, run: int,
    row: int | None, width: float | str | None, title: str | None, *, values: bool,
) -> "Figure":  # fmt: skip
    if show == "heads":
        panels = [
            Panel(at._name(h), Picture(shown.rows, shown.columns, torch.from_numpy(at.weights(h))))
            for h in range(1, at.one.shape[0] + 1)
        ]
        return draw_grid(panels, path, title=title, width=width)
    if show == "hops":
        maps = [view.maps[m] for m in view.runs[run].maps]
        same = [m for m in maps if (m.rows, m.columns) == (at.one.rows, at.one.columns)]
        place = (row or 1) - 1
        each = [_Place(view, m, at.words).weights(None)[place] for m in same]
        names = [f"hop {m.scope['hop'] + 1}" if "hop" in m.scope else m.name for m in same]
        picture = Picture(shown.columns, names, torch.from_numpy(np.stack(each, 1)))
        return draw_alignment(picture, path, title=title, width=width, values=True)
    weights = torch.from_numpy(np.ascontiguousarray(shown.weights[0]))
    picture = Picture(shown.rows, shown.columns, weights)
    mark = None if row is None else row - 1
    return draw_alignment(picture, path, title=title, width=width, values=values, mark=mark)
