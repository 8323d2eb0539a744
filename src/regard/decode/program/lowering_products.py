"""How products are lowered: of inputs side by side as one, or one by one for bytes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from regard.decode.program.instructions import BINARY, BLOCK, Operand
from regard.decode.program.rows import (
    CONSTANT,
    PER_ROW,
    PER_SENTENCE,
    NotLowered,
    Parts,
    RowAxis,
    RowValue,
    Sum,
)

if TYPE_CHECKING:
    from regard.decode.program.lowering import Lowering

__all__ = ["product", "readable", "side_by_side"]


def side_by_side(low: "Lowering", value: Parts) -> RowValue:
    """Copy values behind each other."""
    space = _space(value.values)
    made = low.fresh(value.width, value.axes, space)
    at = 0
    for one in value.values:
        low.copy(one, Operand(made.slot, at))
        at += one.width
    return made


def product(low: "Lowering", value: Sum) -> RowValue:
    """One product of several inputs side by side, each padded to a multiple of 16."""
    pairs: list[tuple[RowValue, Tensor]] = []
    for x, weight in value.parts:
        at = 0
        for one in x.values if isinstance(x, Parts) else (x,):
            pairs.append((one, weight[:, at : at + one.width]))
            at += one.width
        if at != weight.shape[1]:
            raise NotLowered("a product with rows of several vectors")
    if low.apart and len(pairs) > 1:
        return _added(low, pairs, value)
    space = _space([x for x, _ in pairs])
    out = len(value.parts[0][1])
    weights = [nn.functional.pad(w.detach(), (0, -w.shape[1] % BLOCK)) for _, w in pairs]
    if len(pairs) == 1 and readable(low, pairs[0][0]) and pairs[0][0].space == space:
        (read, _) = pairs[0]
    else:
        read = low.fresh(
            sum(w.shape[1] for w in weights),
            [RowAxis("f", sum(w.shape[1] for w in weights))],
            space,
        )
        at = 0
        for (x, _), weight in zip(pairs, weights, strict=True):
            low.copy(x, Operand(read.slot, at))
            if x.width % BLOCK:  # what is multiplied by zeros has to be numbers
                zeros = low.constant_rows(weight.new_zeros(-x.width % BLOCK))
                low.emit("COPY", n=-x.width % BLOCK, y=Operand(read.slot, at + x.width), a=zeros)
            at += weight.shape[1]
    made = low.fresh(out, value.axes, space)
    weight = torch.cat(weights, 1)
    low.products += weight.numel()
    low.emit(
        "LINEAR",
        kind=value.act,
        n=out,
        y=Operand(made.slot),
        a=Operand(read.slot, read.offset),
        w=(weight, value.bias),
    )
    return made


def _added(low: "Lowering", pairs: list[tuple[RowValue, Tensor]], value: Sum) -> RowValue:
    """A product for each input, added up."""
    first, *others = (
        product(low, Sum(((x, w),), None if k else value.bias, value.axes))
        for k, (x, w) in enumerate(pairs)
    )
    space = _space([first, *others])
    n = first.width
    for one in others:
        made = low.fresh(n, value.axes, space)
        y, a, b = Operand(made.slot), low.operand(first), low.operand(one)
        low.emit("BINARY", kind=BINARY["add"], n=n, y=y, a=a, b=b)
        first = made
    if value.act:
        made = low.fresh(n, value.axes, space)
        y, a = Operand(made.slot), low.operand(first)
        low.emit("UNARY", kind=value.act - 1, n=n, y=y, a=a)
        first = made
    return first


def readable(low: "Lowering", value: RowValue) -> bool:
    """Whether a product may read these rows where they are, 16 floats at a time."""
    if value.flat() != 1 or value.by_step or value.space == CONSTANT:
        return False
    own = low.slots[value.slot]
    if value.width % BLOCK == 0:
        return True
    return value.whole and own.width == value.width and not own.compact and own.value is None


def _space(values: Sequence[RowValue]) -> int:
    """Of what is made of these values: a row a sentence where no hypothesis is read."""
    return PER_ROW if any(v.space == PER_ROW for v in values) else PER_SENTENCE
