"""What a picture of a map is of: its labels and weights, whatever draws them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError
from regard.viewer.palette import top_of
from regard.views import Axis, Map, MapPanel, Run, View
from regard.views.numbers import decimal

__all__ = ["Shown", "hops_of", "names_of", "neighbors_of", "shown", "title_of"]

Floats = NDArray[np.float32]

SIZES = {
    "norms": "weight × norm, of the largest",
    "gradient": "size of gradient × weight, of the largest",
    "rollout": "rollout",
}
"""What matrices of other measures than weights show; a page has their signs and scales too."""
OWN = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "self": "self-attention",
}


@dataclass(frozen=True)
class Shown:
    """What a drawing is of.

    Args:
        weights: of each head (rows, columns), over words where they were joined.
        names: of the heads.
        own: rows and columns are the same places.
    """

    rows: list[str]
    columns: list[str]
    weights: list[Floats]
    names: list[str]
    row_axis: Axis
    axis: Axis
    extra: dict[str, list[float]] = field(default_factory=dict)
    own: bool = False

    @property
    def top(self) -> float:
        """The end of the colour scale."""
        return top_of([float(np.abs(w).max(initial=0.0)) for w in self.weights])

    @property
    def widest(self) -> int:
        """The row that looks at the most places: where nothing ahead is seen, not the first one."""
        seen = np.sum([(np.abs(w) > 0.01).sum(1) for w in self.weights], axis=0)
        return int(np.argmax(seen)) if len(seen) else 0

    def row(self, row: int | None) -> Floats:
        """What one row of the first head looks at; all on average where None."""
        found: Floats = self.weights[0].mean(0) if row is None else self.weights[0][row]
        return found


def shown(
    view: View, panel: MapPanel, *, words: bool = True, heads: Sequence[int | None] | None = None
) -> Shown:
    """A map with words or pieces on its axes.

    Args:
        words: pieces put together to words: a word gets the sum of what its pieces get, and looks
            where its pieces look on average.
        heads: in place of the panel's.

    Raises:
        RequestError: no such head or row.
    """
    one = view.maps[panel.map]
    wanted = heads if heads is not None else panel.heads or (None,)
    rows, columns = _labels(view, one, words, rows=True), _labels(view, one, words, rows=False)
    weights = [_weights(view, one, head, words) for head in wanted]
    if panel.row is not None and not 1 <= panel.row <= len(rows):
        raise RequestError(f"there is no row {panel.row}: there are 1 to {len(rows)}")
    for name, places, labels in (("rows", panel.rows, rows), ("columns", panel.columns, columns)):
        if any(not 0 <= i < len(labels) for i in places):
            raise RequestError(f"{one.name}: a panel names {name} that are not there")
    if panel.rows:
        rows, weights = [rows[i] for i in panel.rows], [w[list(panel.rows)] for w in weights]
    if panel.columns:
        columns = [columns[i] for i in panel.columns]
        weights = [w[:, list(panel.columns)] for w in weights]
    return Shown(
        rows,
        columns,
        weights,
        [_name(one, head) for head in wanted],
        view.axes[one.rows],
        view.axes[one.columns],
        one.extra,
        one.rows == one.columns,
    )


def hops_of(view: View, run: Run, panel: MapPanel, *, words: bool = True) -> Shown:
    """A row for each thing that is looked at, a column for each map over the same axes.

    Its one matrix is turned: `rows` are the facts, `columns` the hops.
    """
    first = view.maps[panel.map]
    same = [
        m
        for m in run.maps
        if (view.maps[m].rows, view.maps[m].columns) == (first.rows, first.columns)
    ] or [panel.map]
    place = (panel.row or 1) - 1
    found = shown(view, panel, words=words)
    each = []
    for m in same:
        own = shown(view, MapPanel("hops", map=m, columns=panel.columns), words=words)
        each.append(own.weights[0][place])
    names = [
        f"hop {view.maps[m].scope['hop'] + 1}" if "hop" in view.maps[m].scope else view.maps[m].name
        for m in same
    ]
    return Shown(found.columns, names, [np.stack(each, 1)], [""], found.axis, found.row_axis)


def neighbors_of(view: View, panel: MapPanel) -> tuple[str, list[tuple[str, list[float]]]]:
    """The node of a panel's row, and its neighbors by falling weight: the mean, then each head."""
    one = view.maps[panel.map]
    node = (panel.row or 1) - 1
    found = shown(view, panel, words=False, heads=[None, *range(1, one.shape[0] + 1)])
    mean, heads = found.weights[0][node], [w[node] for w in found.weights[1:]]
    joined = {c for r, c in found.axis.edges if r == node}
    there = joined | {int(c) for c in np.flatnonzero(mean)}
    order = sorted(there, key=lambda c: (-float(mean[c]), c))
    several = len(heads) > 1
    rows = [
        (
            "itself" if c == node and found.own else found.columns[c],
            [float(mean[c]), *(float(h[c]) for h in heads if several)],
        )
        for c in order
    ]
    return found.rows[node], rows


def names_of(view: View, panel: MapPanel, *, layer: bool) -> str:
    """What a small picture among others is called; with its layer, where they are of several."""
    one = view.maps[panel.map]
    parts = [panel.title] if panel.title else [f"layer {one.layer}"] if layer and one.layer else []
    return ", ".join([*parts, *(_name(one, h) for h in panel.heads)])


def title_of(
    view: View, run: Run, panel: MapPanel, *, heads: bool = True, layer: bool = True
) -> str:
    """Model, attention, layer, head, hypothesis and score in one line.

    Args:
        heads, layer: say them too.
    """
    one = view.maps[panel.map]
    count = one.shape[0]
    said = ""
    if heads and count > 1:
        named = ", ".join(_name(one, h) for h in panel.heads)
        said = f"{named} of {count}" if named else f"mean of {count} heads"
    if run.title:
        return " · ".join(part for part in (run.title, panel.title, said) if part)
    layers = [view.maps[m].layer for m in run.maps if view.maps[m].kind == one.kind]
    parts = [run.model, SIZES.get(one.what, ""), panel.title]
    if one.kind != "cross" and not panel.title:
        kind, of, name = one.kind.partition(" of ")  # of a predicate
        parts.append(f"{OWN.get(kind, kind)}{of}{name}")
    if layer and len(layers) > 1 and one.layer and not panel.title:
        parts.append(f"layer {one.layer} of {len(layers)}")
    parts.append(said)
    if run.of > 1:
        parts.append(f"hypothesis {run.number} of {run.of}")
    elif run.target:
        parts.append("forced output")
    if run.score is not None:
        parts.append(f"score {decimal(run.score)}")
    return " · ".join(part for part in parts if part)


def _weights(view: View, one: Map, head: int | None, words: bool) -> Floats:
    """One head (from 1) or the mean of all: (rows, columns)."""
    heads = one.shape[0]
    if head is not None and not 1 <= head <= heads:
        raise RequestError(f"there is no head {head}: {one.name} has 1 to {heads}")
    if head is not None:
        found = one.load(head - 1)
    else:
        found = np.mean([one.load(h) for h in range(heads)], axis=0)
    rows, columns = (_groups(view, one, axis, words) for axis in (one.rows, one.columns))
    if columns:
        found = np.stack([found[:, group].sum(1) for group in columns], 1)
    return np.stack([found[group].mean(0) for group in rows]) if rows else found


def _labels(view: View, one: Map, words: bool, *, rows: bool) -> list[str]:
    """What stands on an axis."""
    at, pool = (one.rows, one.pool[0]) if rows else (one.columns, one.pool[1])
    given = view.axes[at]
    if pool > 1:
        return [f"{piece} …" for piece in given.pieces[::pool]]
    return list(given.texts) if _groups(view, one, at, words) else list(given.pieces)


def _groups(view: View, one: Map, axis: int, words: bool) -> list[list[int]]:
    return view.axes[axis].groups if words and one.pool == (1, 1) else []


def _name(one: Map, head: int | None) -> str:
    if head is None:
        return f"mean of {one.shape[0]} heads" if one.shape[0] > 1 else ""
    return one.heads[head - 1] if one.heads else f"head {head}"


def relative(one: Map, weights: Floats) -> Floats:
    """Sizes from 0 to 1 of what is not a weight, as cells are drawn; weights as they are."""
    if one.what not in ("norms", "gradient"):
        return weights
    size = np.abs(weights)
    found: Floats = (size / max(float(size.max(initial=0.0)), 1e-12)).astype(np.float32)
    return found
