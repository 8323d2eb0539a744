"""Operations that move, cut and join values, in ONNX."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from regard.convert.recorded.arguments import arguments
from regard.convert.recorded.graph import Form, NoForm, ProgramGraph
from regard.decode.program.recorder import Node
from regard.decode.program.tree import Extent, Ref

__all__ = ["VIEWS"]

WHOLE = 2**62
"""Where a slice ends that takes everything."""


def _same(g: ProgramGraph, node: Node) -> str:
    return g.of(node.args[0])


def _cast(g: ProgramGraph, node: Node) -> str:
    """`to`: another dtype, or another device, which a graph does not have."""
    return g.of(node.args[0], g.dtype(node.out))


def _shaped(g: ProgramGraph, node: Node) -> str:
    """`view`, `reshape`, `flatten`, `squeeze` …: the shape of the result is known."""
    return g.reshaped(g.of(node.args[0]), g.shape(node.out))


def _expanded(g: ProgramGraph, node: Node) -> str:
    return g.put("Expand", g.of(node.args[0]), g.sizes(g.shape(node.out)))


def _transposed(g: ProgramGraph, node: Node) -> str:
    x = node.args[0]
    order = list(range(g.rank(x)))
    if node.short in ("mT", "t", "numpy_T"):
        first, second = (-2, -1) if node.short == "mT" else (0, -1)
        if node.short == "numpy_T":
            order.reverse()
        elif len(order) > 1:
            order[first], order[second] = order[second], order[first]
    else:
        first, second = (g.axis(x, i) for i in node.args[1:3])
        order[first], order[second] = order[second], order[first]
    return g.put("Transpose", g.of(x), perm=order)


def _permuted(g: ProgramGraph, node: Node) -> str:
    x, order = node.args[:2]
    return g.put("Transpose", g.of(x), perm=[g.axis(x, i) for i in order])


def _selected(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    return g.put("Gather", g.of(a["self"]), g.of(a["index"]), axis=g.axis(a["self"], a["dim"]))


def _sliced(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    start = 0 if a["start"] is None else a["start"]
    end = WHOLE if a["end"] is None else a["end"]
    end = min(end, WHOLE) if isinstance(end, int) else end
    axis = g.axis(a["self"], a["dim"])
    return _part(g, g.of(a["self"]), axis, start, end, a["step"])


def _part(
    g: ProgramGraph, x: str, axis: int, start: int | Extent, end: int | Extent, step: int = 1
) -> str:
    return g.put(
        "Slice", x, g.size(start), g.size(end), g.constant([axis]), g.constant([int(step)])
    )


def _narrowed(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    axis = g.axis(a["self"], a["dim"])
    if isinstance(a["start"], Extent) or isinstance(a["length"], Extent):
        raise NoForm("a place that follows from sizes")
    return _part(g, g.of(a["self"]), axis, a["start"], a["start"] + a["length"])


def _unbound(g: ProgramGraph, node: Node) -> list[str]:
    a = arguments(node)
    axis = g.axis(a["self"], a["dim"])
    x = g.of(a["self"])
    return [g.put("Gather", x, g.of(i), axis=axis) for i in range(len(node.out))]


def _split(g: ProgramGraph, node: Node) -> list[str]:
    """`split`, `chunk`, `split_with_sizes`: the sizes are those of the results."""
    a = arguments(node)
    axis = g.axis(a["self"], a["dim"])
    sizes = [g.shape(one)[axis] for one in node.out]
    return g.put_many("Split", [g.of(a["self"]), g.sizes(sizes)], len(sizes), axis=axis)


def _joined(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    parts = a["tensors"]
    dtype = g.dtype(node.out)
    axis = (a["dim"] or 0) % g.rank(node.out)
    return _together(g, [g.of(x, dtype) for x in parts], axis)


def _stacked(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    axis = a["dim"] % g.rank(node.out)
    dtype, place = g.dtype(node.out), g.constant([axis])
    return _together(g, [g.put("Unsqueeze", g.of(x, dtype), place) for x in a["tensors"]], axis)


def _together(g: ProgramGraph, parts: Sequence[str], axis: int) -> str:
    return parts[0] if len(parts) == 1 else g.put("Concat", *parts, axis=axis)


def _padded(g: ProgramGraph, node: Node) -> str:
    """`pad`: pairs of counts, from the last axis on."""
    a = arguments(node)
    x, pads = a["self"], list(a["pad"])
    if node.short == "pad" and a["mode"] != "constant":
        raise NoForm(f"mode {a['mode']!r}")
    if any(isinstance(n, int) and n < 0 for n in pads):
        raise NoForm("less than nothing")
    rank = g.rank(x)
    before: list[Any] = [0] * rank
    behind: list[Any] = [0] * rank
    for k, (low, high) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        before[rank - 1 - k], behind[rank - 1 - k] = low, high
    value = a["value"] or 0
    return g.put("Pad", g.of(x), g.sizes([*before, *behind]), g.of(value, g.dtype(x)))


def _flipped(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    axes = [g.axis(a["self"], i) for i in a["dims"]]
    starts, ends = g.constant([-1] * len(axes)), g.constant([-WHOLE] * len(axes))
    steps = g.constant([-1] * len(axes))
    return g.put("Slice", g.of(a["self"]), starts, ends, g.constant(axes), steps)


def _embedded(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    return g.put("Gather", g.of(a["weight"]), g.of(a["indices"]), axis=0)


def _rows(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    return g.put("Gather", g.of(a["self"]), g.of(a["index"]), axis=g.axis(a["self"], a["dim"]))


def _gathered(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    x, index, axis = a["self"], a["index"], g.axis(a["self"], a["dim"])
    return g.put("GatherElements", g.of(x), g.of(index), axis=axis)


def _indexed(g: ProgramGraph, node: Node) -> str:
    """`x[i]`, `x[:, i, j]`: whole numbers at some axes that lie side by side."""
    a = arguments(node)
    x, indices = a["self"], list(a["indices"])
    places = [k for k, one in enumerate(indices) if one is not None]
    if any(g.dtype(indices[k]) == torch.bool for k in places):
        raise NoForm("a mask as index")
    if len(places) == 1:
        return g.put("Gather", g.of(x), g.of(indices[places[0]], torch.int64), axis=places[0])
    if places != list(range(places[0], places[0] + len(places))):
        raise NoForm("indices of axes that lie apart")
    lead = list(range(places[0], places[0] + len(places)))
    rest = [k for k in range(g.rank(x)) if k not in lead]
    moved = g.put("Transpose", g.of(x), perm=[*lead, *rest])
    count = g.rank(node.out) - len(rest)
    shape = g.shape(node.out)[places[0] : places[0] + count]
    each = [
        g.put(
            "Unsqueeze",
            g.put("Expand", g.of(indices[k], torch.int64), g.sizes(shape)),
            g.constant([count]),
        )
        for k in places
    ]
    found = g.put("GatherND", moved, g.put("Concat", *each, axis=count))
    # Axes of the index stand where the first indexed axis stood.
    order = [
        *range(count, count + places[0]),
        *range(count),
        *range(count + places[0], g.rank(node.out)),
    ]
    return g.put("Transpose", found, perm=order)


def _scattered(reduction: str) -> Form:
    def form(g: ProgramGraph, node: Node) -> str:
        a = arguments(node)
        axis = g.axis(a["self"], a["dim"])
        if "src" not in a:
            raise NoForm("one value")
        inputs = g.of(a["self"]), g.of(a["index"]), g.of(a["src"])
        return g.put("ScatterElements", *inputs, axis=axis, reduction=reduction)

    return form


def _repeated(g: ProgramGraph, node: Node) -> str:
    """`repeat_interleave` by one number: every item `repeats` times, one behind the other."""
    a = arguments(node)
    x, count = a["self"], a["repeats"]
    if isinstance(count, Ref) or (a["dim"] is None and g.rank(x) > 1):
        raise NoForm("a count for each item")
    axis = g.axis(x, a["dim"] or 0)
    shape = list(g.shape(x))
    wide = g.put("Unsqueeze", g.of(x), g.constant([axis + 1]))
    wide = g.put("Expand", wide, g.sizes([*shape[: axis + 1], count, *shape[axis + 1 :]]))
    return g.reshaped(wide, g.shape(node.out))


def _tiled(g: ProgramGraph, node: Node) -> str:
    """`repeat`: all of a value a given number of times along each axis."""
    a = arguments(node)
    counts = list(a["repeats"])
    x = g.of(a["self"])
    for _ in range(len(counts) - g.rank(a["self"])):
        x = g.put("Unsqueeze", x, g.constant([0]))
    return g.put("Tile", x, g.sizes(counts))


def _copied(g: ProgramGraph, node: Node) -> str:
    """`index_copy`: rows put into other places."""
    a = arguments(node)
    if a["dim"] != 0:
        raise NoForm("another axis than the first")
    places = g.put("Unsqueeze", g.of(a["index"]), g.constant([1]))
    return g.put("ScatterND", g.of(a["self"]), places, g.of(a["source"]))


def _sorted(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    x, axis = a["self"], g.axis(a["self"], a["dim"])
    inputs = [g.of(x), g.size(g.shape(x)[axis])]
    return g.put_many("TopK", inputs, 2, axis=axis, largest=int(bool(a["descending"])))[1]


def _places(g: ProgramGraph, node: Node) -> str:
    return g.put("Transpose", g.put("NonZero", g.of(node.args[0])), perm=[1, 0])


# -- values that are made


def _filled(value: Any) -> Form:
    """`zeros`, `ones_like`, `full` …: one value in the shape of the result."""

    def form(g: ProgramGraph, node: Node) -> str:
        own = arguments(node).get("fill_value") if value is None else value
        out = node.out
        if isinstance(own, Ref):
            raise NoForm("a value of a tensor")
        return g.put("Expand", g.of(own, g.dtype(out)), g.sizes(g.shape(out)))

    return form


def _range(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    dtype = g.dtype(node.out)
    start, step = a.get("start") or 0, a.get("step") or 1
    found = g.put("Range", *(g.of(x, torch.int64) for x in (start, a["end"], step)))
    return found if dtype == torch.int64 else g.cast(found, dtype)


def _left(g: ProgramGraph, node: Node) -> tuple[()]:
    """`item`: a number of Python from here on."""
    if isinstance(node.out, Extent):
        whole = g.of(node.args[0], torch.int64)
        g.define(node.out, g.put("Reshape", whole, g.constant([1])))
    return ()


VIEWS: Mapping[str, Form] = {
    **dict.fromkeys(
        (
            *("alias", "detach", "contiguous", "clone", "lift_fresh", "resolve_conj"),
            *("resolve_neg", "dropout", "positive"),
        ),
        _same,
    ),
    **dict.fromkeys(
        (
            *("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as"),
            *("unsqueeze", "squeeze", "ravel", "_unsafe_view"),
        ),
        _shaped,
    ),
    **dict.fromkeys(("to", "_to_copy", "float", "long", "type_as"), _cast),
    **dict.fromkeys(("transpose", "t", "mT", "numpy_T", "swapaxes"), _transposed),
    **dict.fromkeys(("split", "chunk", "split_with_sizes"), _split),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), _expanded),
    **dict.fromkeys(
        ("zeros", "new_zeros", "zeros_like", "new_empty", "empty", "empty_like"), _filled(0)
    ),
    **dict.fromkeys(("ones", "new_ones", "ones_like"), _filled(1)),
    **dict.fromkeys(("full", "new_full", "full_like"), _filled(None)),
    **dict.fromkeys(("item", "is_nonzero", "promote_types"), _left),
    **dict.fromkeys(("pad", "constant_pad_nd"), _padded),
    "permute": _permuted,
    "select": _selected,
    "slice": _sliced,
    "narrow": _narrowed,
    "unbind": _unbound,
    "cat": _joined,
    "concat": _joined,
    "stack": _stacked,
    "flip": _flipped,
    "embedding": _embedded,
    "index_select": _rows,
    "gather": _gathered,
    "index": _indexed,
    "scatter": _scattered("none"),
    "scatter_add": _scattered("add"),
    "index_copy": _copied,
    "argsort": _sorted,
    "repeat_interleave": _repeated,
    "repeat": _tiled,
    "nonzero": _places,
    "arange": _range,
}
"""The form of each operation, as in `operations.OPERATIONS`."""
