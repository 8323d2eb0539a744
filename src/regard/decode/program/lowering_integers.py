"""How integers are lowered: places of words, and what stands at a place."""

from typing import Any

import torch

from regard.decode.program.instructions import BINARY, MINIMUM, Operand
from regard.decode.program.lowering import Lowering, handles
from regard.decode.program.recorder import Node
from regard.decode.program.rows import (
    CONSTANT,
    PER_ROW,
    PER_SENTENCE,
    ByKeys,
    Integers,
    NotLowered,
    RowValue,
)
from regard.decode.program.tree import Ref

__all__ = ["whole"]

WHOLE = {**BINARY, "minimum": MINIMUM}


def whole(low: Lowering, node: Node, a: Any, b: Any, name: str) -> Integers:
    """One integer a row of two, or of one and a constant."""
    slot = low.slot(1, integers=True)
    if isinstance(b, Ref):
        low.emit("WHOLE", kind=WHOLE[name], y=Operand(slot), a=_one(low, a), b=_one(low, b))
    elif type(b) is int:
        low.emit("WHOLE", kind=WHOLE[name], m=0, k=b, y=Operand(slot), a=_one(low, a))
    else:
        raise NotLowered(f"{name} of an integer and something else")
    return Integers(slot, low.axes(node))


def _one(low: Lowering, ref: Any, *, by_row: bool = False) -> Operand:
    """One integer of each hypothesis or sentence."""
    value = low.get(ref)
    if not isinstance(value, Integers) or value.width != 1:
        raise NotLowered("several integers, or none")
    if by_row and low.slots[value.slot].space != PER_ROW:
        raise NotLowered("integers of sentences")
    return Operand(value.slot, value.offset)


@handles("minimum")
def minimum(low: Lowering, node: Node, a: Any, b: Any) -> Integers:
    return whole(low, node, a, b, "minimum")


@handles("clamp_min")
def clamp_min(low: Lowering, node: Node, a: Any, least: Any) -> Integers:
    return whole(low, node, a, least, "maximum")


@handles("index")
def index(low: Lowering, node: Node, table: Any, places: Any) -> Integers:
    """What a table of integers has for a word."""
    known = low.program.constants.get(table.index)
    if known is None or known.dim() != 1 or known.dtype != torch.int64 or len(places) != 1:
        raise NotLowered("index")
    own = known.detach().contiguous()
    kept = low.slot(len(own), CONSTANT, integers=True, constant=own)
    slot = low.slot(1, integers=True)
    low.emit("LOOKUP", y=Operand(slot), a=_one(low, places[0], by_row=True), b=Operand(kept))
    return Integers(slot, low.axes(node))


@handles("where")
def where(low: Lowering, node: Node, mask: Any, a: Any, b: Any) -> Integers:
    slot = low.slot(1, integers=True)
    a, b, c = (_one(low, x, by_row=True) for x in (a, b, mask))
    low.emit("CHOOSE", y=Operand(slot), a=a, b=b, c=c)
    return Integers(slot, low.axes(node))


@handles("gather")
def gather(low: Lowering, node: Node, x: Any, dim: int, places: Any, **_: Any) -> Any:
    """What each sentence has at a place: a vector of its states, or an integer."""
    shape, at = low.program.shapes[x.index], low.get(places)
    slot = low.entered.get(x.index)
    if dim != 1 or slot is None or low.slots[slot].space != PER_SENTENCE:
        raise NotLowered("gather from what is not of the source")
    if not isinstance(at, Integers) or at.width != 1 or low.slots[at.slot].space != PER_ROW:
        raise NotLowered("gather at several places")
    value, a = low.get(x), Operand(at.slot, at.offset)
    if low.slots[slot].integers and len(shape) == 2:
        made = low.slot(1, integers=True)
        low.emit("TAKE_ID", y=Operand(made), a=a, b=Operand(slot))
        return Integers(made, low.axes(node))
    if len(shape) != 3 or low.shape(node)[-1] != shape[-1] or not isinstance(value, ByKeys):
        raise NotLowered("gather of another form")
    if low.symbols.label(shape[1]) != "S":
        raise NotLowered("gather from a memory of one size")
    if low.keys is not None and low.keys != shape[1]:
        raise NotLowered("memories of different sizes")
    low.keys = shape[1]
    rows: RowValue = low.fresh(shape[-1], low.axes(node))
    low.emit("TAKE", n=shape[-1], y=Operand(rows.slot), a=a, memory={"values": slot})
    return rows
