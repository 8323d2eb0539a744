"""What other libraries hand out, read into weights: outputs, steps of `generate`, edges, arrays."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError
from regard.watching.readers.generation import Piece, joined
from regard.watching.readers.graphs import EdgeWeights

__all__ = ["Layers", "array_of", "graph_of", "is_array", "read"]

Floats = NDArray[np.float32]

NAMES = {
    "encoder": "encoder_attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
    "self": "attentions",
}
"""What outputs of Hugging Face models call them."""
TUPLES: Mapping[int, Sequence[str]] = {
    1: ("self",),
    2: ("self", "cross"),
    3: ("decoder", "cross", "encoder"),
}
"""What is what in an output that is a plain tuple, by how many of its entries are attentions."""
FORMS = (
    "weights as an array of 2 to 4 axes, layers of them, steps of layers as generate gives them, "
    f"an output that has {', '.join(NAMES.values())}, or (edge_index, alpha) of a graph"
)


class Layers(NamedTuple):
    """One kind's layers, each (heads, R, C) under its number; `steps` were put together."""

    kind: str
    layers: dict[int, Floats]
    steps: bool = False


def is_array(value: Any) -> bool:
    """Whether NumPy can have it as an array: tensors, arrays of JAX and xarray, ...."""
    return any(hasattr(value, name) for name in ("__array__", "__dlpack__", "detach"))


def array_of(value: Any) -> Floats:
    """As an array of float32.

    Raises:
        RequestError: it is not of numbers.
    """
    try:
        if hasattr(value, "detach"):
            value = value.detach().float().cpu().numpy()
        elif hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            value = np.from_dlpack(value)
        return np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError, RuntimeError, BufferError):
        raise RequestError(f"expected an array of numbers, got {_said(value)}") from None


def graph_of(given: Any) -> list[EdgeWeights]:
    """The layers of a graph: (edge_index, alpha), an output that ends so, or a list of them."""
    own = _edges(given)
    if own is not None:
        return [own]
    if isinstance(given, list | tuple) and given:
        layers = [_edges(one) for one in given]
        if len(given) == 2 and layers[0] is None and layers[1] is not None and is_array(given[0]):
            return [layers[1]]  # (output, (edge_index, alpha))
        found = [layer for layer in layers if layer is not None]
        if len(found) == len(layers):
            return found
    return []


def read(given: Any, kind: str | None, row: int) -> list[Layers]:
    """All kinds of weights in what was given, of one row of the batch.

    Raises:
        RequestError: there are none, or they are of another form.
    """
    beams = _field(given, "beam_indices")
    sequences = _field(given, "sequences")
    made = []
    for name, layers in _kinds(given, kind).items():
        place = row
        if name == "encoder" and sequences is not None:  # read once for all that is written of it
            place = row * len(_first(layers)) // len(sequences)
        made.append(_read(name, layers, place, _path(beams, row), kind or name))
    return made


def _edges(given: Any) -> EdgeWeights | None:
    if not isinstance(given, list | tuple) or len(given) != 2 or not all(map(is_array, given)):
        return None
    index, alpha = given
    if hasattr(index, "detach"):
        index = index.detach().cpu()
    index = np.asarray(index)
    if index.ndim != 2 or len(index) != 2 or index.dtype.kind not in "iu":
        return None
    weights = array_of(alpha)
    weights = weights[:, None] if weights.ndim == 1 else weights
    if weights.ndim != 2 or len(weights) != index.shape[1]:
        raise RequestError(
            f"expected alpha (edges,) or (edges, heads) of {index.shape[1]} edges, got an array "
            f"{weights.shape}"
        )
    return EdgeWeights(index[1], index[0], weights.T)


def _kinds(given: Any, kind: str | None) -> dict[str, Any]:
    if isinstance(given, Mapping) and not is_array(given):
        known = {long: short for short, long in NAMES.items()}
        found = {known.get(str(k), str(k)): v for k, v in given.items() if v is not None}
        named = {
            k: v for k, v in found.items() if k in NAMES and (not hasattr(v, "__len__") or len(v))
        }
        strange = [k for k, v in given.items() if v is not None and not _is_weights(v)]
        if not named and strange:
            raise RequestError(
                f"expected {FORMS}; got {type(given).__name__} with {', '.join(map(str, given))} "
                + _ASK
            )
        return named or found
    if isinstance(given, list | tuple):
        outputs = [v for v in given if isinstance(v, list | tuple) and _is_layers(v)]
        if any(is_array(v) for v in given) and len(outputs) in TUPLES:
            return dict(zip(TUPLES[len(outputs)], outputs, strict=True))
        return {kind or "attention": given}
    if is_array(given):
        return {kind or "attention": given}
    found = {k: getattr(given, name, None) for k, name in NAMES.items()}
    found = {k: v for k, v in found.items() if v is not None and len(v)}
    if not found:
        raise RequestError(f"expected {FORMS}; got {type(given).__name__} {_ASK}")
    return found


_ASK = (
    '(ask a model with output_attentions=True and attn_implementation="eager", or watch it with '
    "regard.watch)"
)


def _is_layers(value: Any) -> bool:
    """Layers of (batch, heads, R, C)."""
    return bool(value) and all(is_array(v) and getattr(v, "ndim", 0) == 4 for v in value)


def _is_weights(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_is_weights, value))
    return value is None or (is_array(value) and getattr(value, "ndim", 2) >= 2)


def _read(name: str, given: Any, row: int, path: Sequence[int] | None, kind: str) -> Layers:
    if is_array(given):
        array = array_of(given)
        layers: Sequence[Any] = list(array) if array.ndim >= 4 else [array]
        return Layers(name, _numbered(layers, row, name))
    if not isinstance(given, list | tuple) or not len(given):
        raise RequestError(f"{name}: expected {FORMS}; got {_said(given)}")
    if all(isinstance(step, list | tuple) and step and _is_step(step) for step in given):
        return Layers(name, _together(given, row, path, kind), steps=True)
    if not any(is_array(layer) for layer in given):
        if all(layer is None for layer in given):
            raise RequestError(f"{name}: expected layers of weights, got None for each {_ASK}")
        if not _is_numbers(given):
            raise RequestError(f"{name}: expected {FORMS}; got {_said(given)}")
        given = [given]
    return Layers(name, _numbered(given, row, name))


def _is_step(step: Sequence[Any]) -> bool:
    arrays = [layer for layer in step if layer is not None]
    return bool(arrays) and all(is_array(layer) for layer in arrays)


def _is_numbers(given: Any) -> bool:
    while isinstance(given, list | tuple) and given:
        given = given[0]
    return isinstance(given, int | float)


def _numbered(layers: Sequence[Any], row: int, name: str) -> dict[int, Floats]:
    """Layers by number from 1; what is None attends otherwise, and has no weights."""
    found = {n: _heads(one, row) for n, one in enumerate(layers, 1) if one is not None}
    if not found:
        raise RequestError(f"{name}: there are no weights to look at")
    return found


def _together(
    steps: Sequence[Sequence[Any]], row: int, path: Sequence[int] | None, kind: str
) -> dict[int, Floats]:
    """One map a layer: the rows of all steps in order, each with the columns that were there.

    Of a hypothesis of a beam the row is followed that wrote each token. What looks at itself with
    fewer columns than were read by then has a window: its columns are the newest. Steps that read
    all tokens again (without a cache) have their newest row taken.
    """
    rows = [row] * len(steps) if path is None else list(path)
    made: dict[int, Floats] = {}
    for n in range(len(steps[0])):
        if steps[0][n] is None:
            continue
        some = [_heads(step[n], r) for step, r in zip(steps, rows, strict=False)]
        widths = {one.shape[2] for one in some}
        own = kind in ("self", "decoder") or (kind != "cross" and len(widths) > 1)
        pieces: list[Piece] = []
        total = 0
        for t, one in enumerate(some):
            if t and one.shape[1] == total + 1 > 1:
                one = one[:, -1:]
            elif t and one.shape[1] != 1:
                raise RequestError(
                    f"{kind}: step {t + 1} has {one.shape[1]} rows, and which tokens they are is "
                    "not known; watch the model with regard.watch"
                )
            total += one.shape[1]
            start = max(total - one.shape[2], 0) if own else 0
            if start and not one[:, :, -1].any():
                raise RequestError(
                    f"{kind}: step {t + 1} has {one.shape[2]} columns for {total} tokens, and "
                    "which of them is not known; watch the model with regard.watch"
                )
            pieces.append(Piece(one, total - one.shape[1], start))
        made[n + 1] = joined(kind, pieces, own=own)
    return made


def _path(beams: Any, row: int) -> list[int] | None:
    """Which row of the batch wrote each token of a hypothesis."""
    if beams is None:
        return None
    whole = array_of(beams).astype(int)
    if not -len(whole) <= row < len(whole):
        raise RequestError(f"there is no row {row} in a batch of {len(whole)} sequences")
    return [int(one) for one in whole[row] if one >= 0]


def _field(given: Any, name: str) -> Any:
    if isinstance(given, Mapping) and not is_array(given):
        return given.get(name)
    return None if is_array(given) else getattr(given, name, None)


def _first(layers: Any) -> Any:
    return layers if is_array(layers) else layers[0]


def _heads(layer: Any, row: int) -> Floats:
    """One layer as (heads, R, C)."""
    array = array_of(layer)
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


def _said(value: Any, depth: int = 0) -> str:
    """A value in a few words."""
    name = type(value).__name__
    if hasattr(value, "shape"):
        return f"{name} {tuple(value.shape)}"
    if isinstance(value, list | tuple):
        inside = ", ".join(_said(v, depth + 1) for v in value[:3]) if depth < 2 else "…"
        return f"{name} ({inside}{', …' if len(value) > 3 else ''})"
    return name
