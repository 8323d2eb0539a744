"""Weights from elsewhere: NumPy, torch, or what other libraries hand out."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError
from regard.viewer._drawable import DrawableView
from regard.views import Axis, Map, Run, axis_of

__all__ = ["view"]

Floats = NDArray[np.float32]

NAMES = {
    "encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions",
    "self": "attentions",
}  # fmt: skip
"""What outputs of Hugging Face models call them."""


def view(
    weights: Any,
    rows: Any = None,
    columns: Any = None,
    *,
    kind: str | None = None,
    row: int = 0,
    title: str = "attention",
    output: str = "",
    what: str = "weights",
    extra: Mapping[str, Sequence[float]] | None = None,
    links: Sequence[tuple[int, int]] = (),
    heads: Sequence[str] = (),
) -> DrawableView:
    """Look at any weights: an array, arrays of layers, or a Hugging Face model's output.

    Args:
        weights: (R, C), (heads, R, C), (layers, heads, R, C); a sequence of layers, each
            ([batch,] heads, R, C), as `attentions` of Hugging Face are; a sequence of steps of
            layers, as their `generate` gives; a mapping from "encoder", "decoder", "cross", "self"
            to any of these; or an object that has `attentions`, `encoder_attentions`, ....
        rows: labels of what looks: a list, a text of words apart by spaces, or a `Axis`.
        columns: labels of what is looked at; those of `rows` where the weights are square.
        kind: "cross", "self", "features" (the first axis is features), "edges", "pointer", ....
        row: of the batch.
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
    kinds = _kinds(weights, kind)
    layers = {
        (k, n): _heads(layer, row) for k, given in kinds.items()
        for n, layer in enumerate(_layers(given, row), 1)
    }  # fmt: skip
    if not layers:
        raise RequestError("there are no weights to look at")
    sides = _Axes(rows, columns, several=len(kinds) > 1)
    maps = []
    for (k, n), array in layers.items():
        r, c = sides.of(k, array.shape[1], array.shape[2])
        name = f"{k}.{n}" if len(layers) > 1 else k
        maps.append(Map.of(
            name, r, c, array, kind=k, layer=n, what=what, heads=list(heads), links=list(links),
            extra={key: [float(v) for v in values] for key, values in (extra or {}).items()},
        ))  # fmt: skip
    run = Run(list(range(len(maps))), input=sides.text(), output=output)
    return DrawableView(sides.made, maps, [run], title=title)


def _kinds(weights: Any, kind: str | None) -> dict[str, Any]:
    if isinstance(weights, Mapping) and not hasattr(weights, "shape"):
        known = {long: short for short, long in NAMES.items()}
        found = {known.get(str(k), str(k)): v for k, v in weights.items() if v is not None}
        named = {k: v for k, v in found.items() if k in NAMES}
        return named or found
    if not hasattr(weights, "shape") and not isinstance(weights, list | tuple):
        found = {k: getattr(weights, name, None) for k, name in NAMES.items()}
        found = {k: v for k, v in found.items() if v is not None and len(v)}
        if not found:
            raise RequestError(
                f"expected weights as arrays, or an output that has {', '.join(NAMES.values())}; "
                f"got {type(weights).__name__} (ask the model with output_attentions=True and "
                'attn_implementation="eager")'
            )
        return found
    return {kind or "attention": weights}


def _layers(given: Any, row: int) -> list[Any]:
    """A list of what each layer looked at."""
    if hasattr(given, "shape"):
        return [given[i] for i in range(len(given))] if given.ndim >= 4 else [given]
    if not isinstance(given, list | tuple) or not given:
        raise RequestError(f"expected layers of weights, got {type(given).__name__}")
    first = given[0]
    if isinstance(first, list | tuple) and hasattr(first[0], "shape"):  # steps of layers
        steps = [[_heads(layer, row) for layer in step] for step in given]
        widest = max(layer.shape[2] for step in steps for layer in step)
        return [
            np.concatenate([_widen(step[n], widest) for step in steps], 1)
            for n in range(len(steps[0]))
        ]
    return [given] if not hasattr(first, "shape") else list(given)


def _heads(layer: Any, row: int) -> Floats:
    """One layer as (heads, R, C)."""
    array = _array(layer)
    if array.ndim == 4:
        if not -len(array) <= row < len(array):
            raise RequestError(f"there is no row {row} in a batch of {len(array)}")
        array = array[row]
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3:
        raise RequestError(
            f"expected weights of 2 axes (rows, columns) up to layers of 4 (batch, heads, rows, "
            f"columns), got an array of {array.ndim}: {array.shape}"
        )
    return array


def _array(value: Any) -> Floats:
    if hasattr(value, "detach"):
        value = value.detach().float().cpu().numpy()
    try:
        return np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError):
        raise RequestError(f"expected an array of numbers, got {type(value).__name__}") from None


def _widen(weights: Floats, columns: int) -> Floats:
    return np.pad(weights, ((0, 0), (0, 0), (0, columns - weights.shape[2])))


class _Axes:
    """Which labels go with which axis."""

    def __init__(self, rows: Any, columns: Any, several: bool) -> None:
        self.rows, self.columns, self.several = rows, columns, several
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
            self.made.append(axis_of(labels, count))
            self._known[side, count] = len(self.made) - 1
        return self._known[side, count]

    def text(self) -> str:
        """The input, where it is a text."""
        side = self.made[-1]
        return " ".join(side.texts or side.pieces) if side.kind == "text" else ""


def _last(labels: Any, count: int) -> Any:
    """Labels of the last places, for queries that are the newest of a longer past."""
    return labels[-count:] if isinstance(labels, list | tuple) and len(labels) > count else None
