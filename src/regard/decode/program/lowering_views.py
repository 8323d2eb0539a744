"""How views are lowered: they change how a row is read, and cost nothing; `cat` waits."""

from dataclasses import replace
from typing import Any

import torch

from regard.decode.program.instructions import Operand
from regard.decode.program.lowering import Lowering, handles
from regard.decode.program.recorder import Node
from regard.decode.program.rows import (
    CONSTANT,
    PER_ROW,
    PER_SENTENCE,
    ByKeys,
    Integers,
    NotLowered,
    Parts,
    RowAxis,
    RowValue,
    Sum,
)
from regard.decode.program.tree import Extent

__all__: list[str] = []


@handles(
    "view", "reshape", "flatten", "unflatten", "view_as", "unsqueeze", "squeeze", "_unsafe_view"
)
def view(low: Lowering, node: Node, x: Any, *_: Any, **__: Any) -> Any:
    value = low.get(x, lazy=True)
    axes = low.axes(node)
    if isinstance(value, ByKeys):
        return value
    if isinstance(value, Integers | Sum | Parts):
        return replace(value, axes=axes)
    stride = value.flat()
    if stride is None:  # features may move together with other axes; else they are copied
        old = [axis for axis in value.axes if axis.label == "f"]
        if [axis.size for axis in old] == [axis.size for axis in axes if axis.label == "f"]:
            own = iter(old)
            return replace(value, axes=tuple(next(own) if a.label == "f" else a for a in axes))
        value, stride = low.copied(value), 1
    axes = tuple(replace(a, stride=a.stride * stride) if a.label in "f1" else a for a in axes)
    return replace(value, axes=axes)


@handles("contiguous", "alias", "detach", "clone", "lift_fresh")
def same(low: Lowering, node: Node, x: Any, *_: Any, **__: Any) -> Any:
    return low.get(x, lazy=True)


@handles("to", "_to_copy")
def to(low: Lowering, node: Node, x: Any, *_: Any, **__: Any) -> Any:
    if low.program.dtypes[node.out.index] != low.program.dtypes[x.index]:
        raise NotLowered("a conversion to another dtype")
    return low.get(x, lazy=True)


@handles("expand", "expand_as")
def expand(low: Lowering, node: Node, x: Any, *_: Any, **__: Any) -> Any:
    value = low.get(x)
    if isinstance(value, ByKeys):
        raise NotLowered("an expansion of numbers by keys")
    shape = low.shape(node)
    axes = [RowAxis("1")] * (len(shape) - len(value.axes)) + list(value.axes)
    labels = [low.symbols.label(n) for n in shape]
    return replace(
        value,
        axes=tuple(
            RowAxis(label, n, 0) if axis.label == "1" and label != "1" else axis
            for axis, label, n in zip(axes, labels, shape, strict=True)
        ),
    )


@handles("transpose")
def transpose(low: Lowering, node: Node, x: Any, first: int, second: int) -> RowValue:
    value = low.rows(x)
    axes = list(value.axes)
    axes[first], axes[second] = axes[second], axes[first]
    return replace(value, axes=tuple(axes))


@handles("select")
def select(low: Lowering, node: Node, x: Any, dim: int, index: Any) -> Any:
    value = low.get(x)
    if isinstance(value, ByKeys):
        return _of_source(low, node, x, value, dim, index)
    axes = list(value.axes)
    axis = axes.pop(dim % len(value.axes))
    if isinstance(index, Extent):
        if not low.symbols.at_step(index) or value.space == PER_ROW:
            raise NotLowered("a place that depends on sizes")
        return _at_step(value, axis, axes, index)
    if axis.label not in "f1":
        raise NotLowered(f"a place on an axis {axis.label}")
    index = index + axis.size if index < 0 else index
    if isinstance(value, Integers):
        return replace(
            value,
            axes=tuple(axes),
            offset=value.offset + index * axis.stride,
            width=value.width // axis.size,
        )
    return replace(value, axes=tuple(axes), offset=value.offset + index * axis.stride, whole=False)


def _of_source(low: Lowering, node: Node, x: Any, value: ByKeys, dim: int, index: Any) -> RowValue:
    """What stands at the place of the step in each source; a guard knows where it ends."""
    shape = low.program.shapes[x.index]
    own = low.slots[value.slot]
    if (
        not low.symbols.at_step(index)
        or dim != 1
        or own.space != PER_SENTENCE
        or own.value != x.index
        or index.c < 0
    ):
        raise NotLowered("a place of numbers by keys")
    if len(shape) != 3 or own.width != shape[2]:
        raise NotLowered("a place of numbers by keys of another form")
    n = shape[2]
    return RowValue(PER_SENTENCE, value.slot, low.axes(node), index.c * n, n)


def _at_step(value: RowValue, axis: RowAxis, axes: list[RowAxis], index: Extent) -> RowValue:
    """The row of a table that belongs to the step."""
    if value.space != CONSTANT:
        raise NotLowered("a place in the source that depends on the step")
    return replace(
        value,
        axes=tuple(axes),
        offset=value.offset + index.c * axis.stride,
        by_step=value.by_step + axis.stride,
        whole=False,
    )


@handles("slice")
def cut(
    low: Lowering,
    node: Node,
    x: Any,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Any:
    value = low.get(x)
    if isinstance(value, ByKeys):
        raise NotLowered("a slice of numbers by keys")
    axes = list(value.axes)
    dim %= len(axes)
    axis = axes[dim]
    start = 0 if start is None else start
    if isinstance(start, Extent):
        if value.space != CONSTANT or not low.symbols.at_step(start):
            raise NotLowered("a slice that depends on sizes")
        size = low.shape(node)[dim]
        if isinstance(size, Extent):
            raise NotLowered("a slice of a size that varies")
        axes[dim] = RowAxis("1" if size == 1 else "f", size, axis.stride)
        return _at_step(value, axis, axes, start)
    if axis.label not in "f1":
        if start == 0 and (end is None or (not isinstance(end, Extent) and end > 2**40)):
            return value
        raise NotLowered(f"a slice of an axis {axis.label}")
    if isinstance(end, Extent):
        by_word = low.symbols.label(low.shape(node)[dim]) == "W"
        if not by_word or dim or step != 1 or start < 0 or value.space != CONSTANT:
            raise NotLowered("a slice that depends on sizes")
        return low.of_places(replace(value, offset=value.offset + start * axis.stride), axis, start)
    n = axis.size
    start = max(start + n, 0) if start < 0 else min(start, n)
    end = n if end is None or end > n else end + n if end < 0 else end
    size = max(0, (end - start + step - 1) // step)
    axes[dim] = RowAxis("f" if size != 1 else "1", size, axis.stride * step)
    moved = value.offset + start * axis.stride
    if isinstance(value, Integers):
        if step != 1 or len([a for a in value.axes if a.label == "f"]) > 1:
            raise NotLowered("a slice of integers with several axes")
        return replace(value, axes=tuple(axes), offset=moved, width=size)
    return replace(value, axes=tuple(axes), offset=moved, whole=False)


@handles("unbind")
def unbind(low: Lowering, node: Node, x: Any, dim: int = 0) -> list[RowValue]:
    value = low.rows(x)
    dim %= len(value.axes)
    axis = value.axes[dim]
    if axis.label not in "f1":
        raise NotLowered(f"unbind of an axis {axis.label}")
    rest = tuple(one for i, one in enumerate(value.axes) if i != dim)
    return [
        replace(value, axes=rest, offset=value.offset + i * axis.stride, whole=False)
        for i in range(axis.size)
    ]


def _pieces(low: Lowering, x: Any, dim: int, sizes: list[int]) -> list[RowValue]:
    value = low.rows(x)
    dim %= len(value.axes)
    axis, made, at = value.axes[dim], [], 0
    if axis.label not in "f1":
        raise NotLowered(f"pieces of an axis {axis.label}")
    for n in sizes:
        axes = list(value.axes)
        axes[dim] = RowAxis("f" if n != 1 else "1", n, axis.stride)
        moved = value.offset + at * axis.stride
        made.append(replace(value, axes=tuple(axes), offset=moved, whole=False))
        at += n
    return made


@handles("split")
def split(low: Lowering, node: Node, x: Any, size: int, dim: int = 0) -> list[RowValue]:
    n = low.rows(x).axes[dim].size
    return _pieces(low, x, dim, [min(size, n - i) for i in range(0, n, size)])


@handles("split_with_sizes")
def split_with_sizes(low: Lowering, node: Node, x: Any, sizes: list[int], dim: int = 0) -> Any:
    return _pieces(low, x, dim, sizes)


@handles("chunk")
def chunk(low: Lowering, node: Node, x: Any, count: int, dim: int = 0) -> list[RowValue]:
    n = low.rows(x).axes[dim].size
    each = -(-n // count)
    return _pieces(low, x, dim, [min(each, n - i) for i in range(0, n, each)])


@handles("cat", "stack")
def cat(low: Lowering, node: Node, xs: list[Any], dim: int = 0) -> Any:
    values = [low.get(x) for x in xs]
    axes = low.axes(node)
    if all(isinstance(value, Integers) for value in values):
        return _integers_side_by_side(low, node, values)
    if not all(isinstance(value, RowValue) for value in values):
        raise NotLowered("cat of numbers by keys")
    before = axes[: dim % len(axes)]
    if any(axis.label == "f" for axis in before):
        raise NotLowered("cat of an inner axis")
    if axes[dim % len(axes)].label not in "f1":
        raise NotLowered("cat of an axis that varies")
    return Parts(tuple(value for value in values if value.width), axes)


def _integers_side_by_side(low: Lowering, node: Node, values: list[Integers]) -> Integers:
    n = sum(value.width for value in values)
    slot, at = low.slot(n, integers=True), 0
    for value in values:
        y, a = Operand(slot, at), Operand(value.slot, value.offset)
        low.emit("PICK", n=value.width, y=y, a=a)
        at += value.width
    return Integers(slot, low.axes(node), 0, n, n)


@handles("constant_pad_nd", "pad")
def pad(
    low: Lowering, node: Node, x: Any, sides: list[int], mode: Any = "constant", value: Any = None
) -> Parts:
    fill = value if isinstance(mode, str) else mode
    if fill or len(sides) != 2 or sides[0] or mode == "reflect":
        raise NotLowered("padding of another form")
    zeros = RowValue(CONSTANT, torch.zeros(sides[1]), (RowAxis("f", sides[1], 1),))
    return Parts((low.rows(x), zeros), low.axes(node))
