"""Weights from elsewhere: NumPy, torch, or what other libraries hand out."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from regard.errors import RequestError
from regard.viewer._drawable import DrawableView
from regard.views import Axis, Map, Run, axis_of
from regard.watching.readers.axes import part
from regard.watching.readers.graphs import EdgeWeights, edge_map, node_axes
from regard.watching.readers.outputs import graph_of, read

if TYPE_CHECKING:
    from regard.attention import Seen

__all__ = ["view"]


def view(
    weights: Any,
    rows: Any = None,
    columns: Any = None,
    *,
    tokens: Any = None,
    kind: str | None = None,
    row: int = 0,
    title: str = "attention",
    output: str = "",
    what: str = "weights",
    extra: Mapping[str, Sequence[float]] | None = None,
    links: Sequence[tuple[int, int]] = (),
    heads: Sequence[str] = (),
) -> DrawableView:
    """Look at any weights: arrays, what another library's model gave, or what `watch` saw.

    Args:
        weights: (R, C), (heads, R, C), (layers, heads, R, C), of NumPy, torch, JAX, xarray, or
            anything with `__array__` or `__dlpack__`; a sequence of layers, each ([batch,] heads,
            R, C); a sequence of steps of layers, as `generate` of Hugging Face gives; a mapping
            from "encoder", "decoder", "cross", "self" to any of these; an output of a Hugging Face
            model, an object, mapping or tuple, that has `attentions`, `encoder_attentions`, ...;
            `(edge_index, alpha)` of PyTorch Geometric, or one for each layer; a `Seen`.
        rows: labels of what looks: a list, a text of words apart by spaces, a `Axis`, the output
            of a Hugging Face tokenizer, a `tokenizers.Encoding`, or a pair of a tokenizer and a
            text or ids; of a graph, the names of the nodes.
        columns: labels of what is looked at; those of `rows` where the weights are square; of a
            graph, the names of a second set of nodes, where others are looked at.
        tokens: `rows`, by the name that suits a text that looks at itself.
        kind: "cross", "self", "features" (the first axis is features), "pointer", ....
        row: of the batch; where hypotheses of a beam were kept, of the sequences.
        title, output: written above.
        what: weights, norms, rollout, gradient or alignment.
        extra: numbers beside the rows, as {"generate": …} of a pointer, {"x": …, "y": …}.
        links: known pairs of row and column.
        heads: names of the heads.

    Raises:
        RequestError: weights of another form, or labels of another number.

    Example:
        >>> import numpy as np
        >>> view(np.eye(3), rows="das ist gut", columns="this is good")
        DrawableView('attention': 1 run(s), 1 map(s), 1 head(s))
    """
    if tokens is not None:
        if rows is not None:
            raise RequestError("expected rows or tokens, which are the same; got both")
        rows = tokens
    seen = _seen(weights)
    if seen is not None:
        from regard.watching.seen_views import of_seen

        return of_seen(seen, title=title, row=row, rows=rows, columns=columns)
    if graph := graph_of(weights):
        return _graph(graph, rows, columns, title, output)
    own = _coordinates(weights)
    rows, columns = own[0] if rows is None else rows, own[1] if columns is None else columns
    kinds = read(weights, kind, row)
    layers = {(one.kind, n): array for one in kinds for n, array in one.layers.items()}
    if not layers:
        raise RequestError("view expected weights, got none")
    steps = any(one.steps for one in kinds)
    sides = _Axes(rows, columns, row, several=len(kinds) > 1, steps=steps)
    maps = []
    for (k, n), array in layers.items():
        r, c = sides.of(k, array.shape[1], array.shape[2])
        name = f"{k}.{n}" if len(layers) > 1 else k
        maps.append(
            Map.of(
                name,
                r,
                c,
                array,
                kind=k,
                layer=n,
                what=what,
                heads=list(heads),
                links=list(links),
                extra={key: [float(v) for v in values] for key, values in (extra or {}).items()},
            )
        )
    run = Run(list(range(len(maps))), input=sides.text(), output=output)
    return DrawableView(sides.made, maps, [run], title=title)


def _seen(given: Any) -> "Seen | None":
    """What a recorder saw: a caller with one has loaded its module."""
    home = sys.modules.get("regard.attention")
    return given if home is not None and isinstance(given, home.Seen) else None


def _graph(
    layers: Sequence[EdgeWeights], rows: Any, columns: Any, title: str, output: str
) -> DrawableView:
    """One set of nodes; two where the nodes that are looked at have names of their own."""
    if columns is not None:
        for layer in layers:
            layer.nodes, layer.keys = layer.looking, layer.looked
    first, second = node_axes(layers, rows, columns)
    axes = [first] if second is None else [first, second]
    sides, counts = (0, len(axes) - 1), (len(first), len(axes[-1]))
    maps = [
        edge_map(f"edges.{n}" if len(layers) > 1 else "edges", sides, counts, layer, layer=n)
        for n, layer in enumerate(layers, 1)
    ]
    run = Run(list(range(len(maps))), output=output)
    return DrawableView(axes, maps, [run], title=title)


def _coordinates(weights: Any) -> tuple[Any, Any]:
    """Labels of an array's last two axes, where it has some, as those of xarray."""
    dims, known = getattr(weights, "dims", ()), getattr(weights, "coords", None)
    if known is None or len(dims) < 2:
        return None, None
    rows, columns = (known[d].values.tolist() if d in known else None for d in dims[-2:])
    return rows, columns


class _Axes:
    """Which labels go with which axis."""

    def __init__(self, rows: Any, columns: Any, row: int, *, several: bool, steps: bool) -> None:
        self.rows, self.columns = _named(rows, row), _named(columns, row)
        self.several, self.steps = several, steps
        self.made: list[Axis] = []
        self._known: dict[tuple[str, int], int] = {}

    def of(self, kind: str, rows: int, columns: int) -> tuple[int, int]:
        """Places of the sides for one map."""
        own = kind in ("encoder", "decoder", "self", "features") or (
            rows == columns and (self.rows is None or self.columns is None)
        )
        if own:
            first, other = self.rows, self.columns
            if kind == "encoder":
                first, other = other, first
            labels = other if first is None and not self.several else first
            side = "columns" if kind == "encoder" else "rows"
            if rows == columns:
                at = self._one(side, labels, columns)
                return at, at
            return self._one(side, _last(labels, rows), rows), self._one(side, labels, columns)
        return self._one("rows", self.rows, rows), self._one("columns", self.columns, columns)

    def _one(self, side: str, labels: Any, count: int) -> int:
        if (side, count) not in self._known:
            if self.steps and side == "rows" and labels is not None and len(labels) == count + 1:
                labels = part(labels, 0, count)  # the last token was written and never read
            self.made.append(axis_of(labels, count))
            self._known[side, count] = len(self.made) - 1
        return self._known[side, count]

    def text(self) -> str:
        """The input, where it is a text."""
        side = self.made[-1]
        return " ".join(side.texts or side.pieces) if side.kind == "text" else ""


def _named(labels: Any, row: int) -> Axis | None:
    return None if labels is None else axis_of(labels, row=row)


def _last(labels: Axis | None, count: int) -> Axis | None:
    """Labels of the last places, for queries that are the newest of a longer past."""
    if labels is None or len(labels) <= count:
        return None
    return part(labels, len(labels) - count, len(labels))
