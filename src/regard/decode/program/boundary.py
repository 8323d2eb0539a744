"""What crosses the boundary of C: inputs, outputs, and what PyTorch computes in between.

A node for which C has no instruction is computed by PyTorch between two pieces of C. What it reads
leaves C as a tensor, what it makes enters C as one. So a decoder with one unusual operation still
runs in C up to it and behind it.
"""

from typing import TYPE_CHECKING, Any

import torch

from regard.attention import Memory
from regard.decode.program.instructions import BLOCK, Operand, TorchNode, read_slots
from regard.decode.program.recorder import Node
from regard.decode.program.rows import (
    PER_ROW,
    PER_SENTENCE,
    ByKeys,
    HeadWeights,
    Integers,
    NoTensor,
    NotLowered,
    RowValue,
)
from regard.decode.program.tree import refs

if TYPE_CHECKING:
    from regard.decode.program.lowering import Lowering

__all__ = ["enter", "host", "leave", "leave_all", "parts_of"]


def enter(low: "Lowering", number: int, space: int) -> None:
    """Make a tensor a value of C: an input of the program, or what PyTorch computed."""
    if number in low.values:
        return
    shape, dtype = low.program.shapes[number], low.program.dtypes[number]
    labels = [low.symbols.label(n) for n in shape]
    if space == PER_ROW and not {"W", "R"} & set(labels):
        space = PER_SENTENCE
    width = 1
    for n, label in zip(shape, labels, strict=True):
        width *= n if label == "f" else 1
    integers = not dtype.is_floating_point
    leads = "".join(labels).lstrip("BWR")
    slot = low.slot(width, space, integers=integers, value=number)
    low.entered[number] = slot
    known = dtype in (torch.float32, torch.int64) and labels[:1] in (["B"], ["R"])
    if not known or any(label in "BWR" for label in leads):
        low.values[number] = None  # may be left as it is
    elif "S" in labels:
        low.values[number] = ByKeys(slot)
    elif integers:
        low.values[number] = Integers(slot, low.symbols.axes(shape), 0, width, width)
    else:
        low.values[number] = RowValue(space, slot, low.symbols.axes(shape))


def host(low: "Lowering", node: Node, why: str) -> None:
    """Let PyTorch compute a node.

    Raises:
        NoTensor: it reads what C cannot give as a tensor; then PyTorch has to make that too.
    """
    if node.writes:
        raise NotLowered(f"{node.name}, which writes into a value")
    for number in node.reads:
        leave(low, number)
    low.hosts.append(TorchNode(len(low.code), node, why))
    for number in node.makes:
        low.tensors.add(number)
        enter(low, number, PER_ROW)
        size = low.program.shapes[number][-1] if isinstance(low.values[number], ByKeys) else None
        if size is not None and low.keys is None and size in _sizes_of_memories(low):
            low.keys = size
        if size != low.keys and size is not None:
            low.values[number] = None  # of another size than the memory


def _sizes_of_memories(low: "Lowering") -> set[Any]:
    """How many keys a memory may have: the second size of what a step reads of the source."""
    numbers = refs(low.program.inputs["memories"])
    return {shape[1] for n in numbers if len(shape := low.program.shapes[n]) > 1}


def leave_all(low: "Lowering") -> None:
    """Have every output as a tensor, but for caches: they stay in blocks.

    Raises:
        NoTensor: C cannot give one.
    """
    outputs = low.program.outputs
    carried = dict(outputs["carried"])
    places = low.cached
    for name, cache in low.caches.items():
        grown = parts_of(carried.pop(name, None))
        if [places.get(ref.index) for ref in grown] != cache.leaves:
            raise NoTensor(cache.numbers[0], "a cache that is carried in another form")
    for number in dict.fromkeys(refs((outputs["logits"], carried, outputs.get("weights")))):
        leave(low, number)


def parts_of(memory: Any) -> list[Any]:
    """Key, value and prepared keys of a memory as a flat list; empty for other values."""
    if not isinstance(memory, Memory):
        return []
    more: Any = memory.prepared
    more = more if isinstance(more, tuple) else () if more is None else (more,)
    return [memory.key, memory.value, *more]


def leave(low: "Lowering", number: int) -> None:
    """Have a value as a tensor: PyTorch reads it, or it is an output.

    Raises:
        NoTensor: its rows are laid out in another order.
    """
    if number in low.tensors or number in low.made or number in low.aliases:
        return
    try:
        _leave(low, number)
    except NotLowered as error:
        raise NoTensor(number, str(error)) from error


def _leave(low: "Lowering", number: int) -> None:
    value = low.get(number)
    if isinstance(value, ByKeys | HeadWeights):
        _named(low, number, value.slot)
        if getattr(value, "heads_first", False):
            low.turned.add(number)
        return
    _check_order(low, value)
    if isinstance(value, Integers):
        if low.program.dtypes[number] != torch.int64:
            raise NotLowered(f"a value of {low.program.dtypes[number]}")
        own, width = low.slots[value.slot], 1
        for axis in value.axes:
            width *= axis.size if axis.label == "f" else 1
        if width != value.width:
            raise NotLowered("integers that are expanded")
        if own.value is not None and value.width == value.row:
            low.aliases[number] = own.value
        elif own.space != PER_ROW:
            raise NotLowered("integers of sentences")
        else:
            out = low.slot(value.width, integers=True, value=number)
            low.emit("PICK", n=value.width, y=Operand(out), a=Operand(value.slot, value.offset))
            low.made[number] = out
        return
    space = PER_SENTENCE if _leading(value) == ["B"] else PER_ROW
    if not value.width:
        low.made[number] = low.slot(0, value=number)
        return
    straight = value.flat() == 1 and not value.offset and not value.by_step
    if straight and value.space == space and low.slots[value.slot].width == value.width:
        own = low.slots[value.slot]
        padded = value.width % BLOCK and any(value.slot in read_slots(one) for one in low.code)
        if own.value is not None or (value.whole and not own.compact and not padded):
            _named(low, number, value.slot)
            return
    made = low.copied(value, space)
    _named(low, number, made.slot)


def _named(low: "Lowering", number: int, slot: int) -> None:
    """A slot is a tensor of its own, or another view of the one that it is."""
    own = low.slots[slot]
    if own.value is None:
        own.value, low.made[number] = number, slot
    else:
        low.aliases[number] = own.value


def _leading(value: Any) -> list[str]:
    return [axis.label for axis in value.axes if axis.label in "BWRS"]


def _check_order(low: "Lowering", value: Any) -> None:
    """Refuse what is no tensor with all its rows behind each other."""
    labels = [axis.label for axis in value.axes if axis.label != "1"]
    rows = _leading(value)
    if rows not in (["B", "W"], ["R"], ["B"]) or labels[: len(rows)] != rows:
        raise NotLowered(f"a value with axes {' '.join(a.label for a in value.axes)}")
    if rows == ["B"] and isinstance(value, RowValue) and value.space == PER_ROW:
        raise NotLowered("a row of each hypothesis in the place of one of each sentence")
