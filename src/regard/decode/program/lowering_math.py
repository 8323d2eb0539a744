"""How arithmetic is lowered: products wait for what is added to them and for their activation."""

from dataclasses import replace
from typing import Any

from regard.decode.program.instructions import BINARY, SCALE, SHIFT, UNARY, Operand
from regard.decode.program.lowering import Lowering, handles
from regard.decode.program.lowering_integers import whole
from regard.decode.program.recorder import Node
from regard.decode.program.rows import (
    CONSTANT,
    PER_ROW,
    PER_SENTENCE,
    Integers,
    NotLowered,
    Parts,
    RowValue,
    Sum,
)
from regard.decode.program.tree import Ref

__all__: list[str] = []

COMPARISONS = {"eq": 0, "ge": 1, "ne": 2, "lt": 3}


@handles("linear")
def linear(low: Lowering, node: Node, x: Any, weight: Any, bias: Any = None) -> Sum:
    value = low.get(x, lazy=True)
    if isinstance(value, Sum):
        value = low.rows(x)
    if not isinstance(value, RowValue | Parts):
        raise NotLowered("a product with numbers by keys")
    own = None if bias is None else low.constant(bias)
    return Sum(((value, low.constant(weight)),), own, low.axes(node))


@handles("add")
def add(low: Lowering, node: Node, a: Any, b: Any, alpha: Any = 1) -> Any:
    if alpha != 1 or not isinstance(a, Ref):
        raise NotLowered("add with a factor")
    x = low.get(a, lazy=True)
    if isinstance(x, Integers):
        return whole(low, node, a, b, "add")
    if not isinstance(b, Ref):
        return _scalar(low, node, a, b, SHIFT)
    y = low.get(b, lazy=True)
    both = isinstance(x, Sum) and isinstance(y, Sum) and not x.act and not y.act
    if both and low.once(a) and low.once(b) and len(x.parts[0][1]) == len(y.parts[0][1]):
        bias = x.bias if y.bias is None else y.bias if x.bias is None else x.bias + y.bias
        return Sum(x.parts + y.parts, bias, low.axes(node))
    for total, other, ref in ((x, y, a), (y, x, b)):
        known = isinstance(other, RowValue) and other.space == CONSTANT and not other.by_step
        if isinstance(total, Sum) and not total.act and known and low.once(ref):
            more = low.constant(b if ref is a else a).flatten()
            if len(more) == len(total.parts[0][1]):
                bias = more if total.bias is None else total.bias + more
                return Sum(total.parts, bias, low.axes(node))
    return _binary(low, node, a, b, "add")


@handles("sub", "maximum")
def subtract(low: Lowering, node: Node, a: Any, b: Any, alpha: Any = 1) -> Any:
    if alpha == 1 and isinstance(low.get(a, lazy=True), Integers):
        return whole(low, node, a, b, node.short)
    if alpha != 1 or not isinstance(b, Ref):
        raise NotLowered("a difference of this form")
    return _binary(low, node, a, b, node.name.split(".")[1])


@handles("mul")
def multiply(low: Lowering, node: Node, a: Any, b: Any) -> RowValue:
    if not isinstance(b, Ref):
        return _scalar(low, node, a, b, SCALE)
    mask = low.get(b, lazy=True)
    if not isinstance(mask, Integers):
        return _binary(low, node, a, b, "mul")
    value = low.rows(a)
    made = low.fresh(value.width, low.axes(node))
    low.emit(
        "MASK",
        n=value.width,
        kind=1,
        x=0.0,
        y=Operand(made.slot),
        a=low.operand(value),
        b=_flag(mask),
    )
    return made


@handles("div")
def divide(low: Lowering, node: Node, a: Any, b: Any) -> RowValue:
    if isinstance(b, Ref):
        raise NotLowered("a quotient")
    return _scalar(low, node, a, 1 / b, SCALE)


@handles("neg")
def negate(low: Lowering, node: Node, a: Any) -> RowValue:
    return _scalar(low, node, a, -1.0, SCALE)


def _binary(low: Lowering, node: Node, a: Any, b: Any, name: str) -> RowValue:
    x, y = low.rows(a), low.rows(b)
    axes = low.axes(node)
    n = 1
    for axis in axes:
        n *= axis.size if axis.label == "f" else 1
    if any(axis.label == "S" for axis in (*axes, *x.axes, *y.axes)):
        raise NotLowered(f"{name} of values by keys")
    space = PER_ROW if PER_ROW in (x.space, y.space) else PER_SENTENCE
    made = low.fresh(n, axes, space)
    operands = []
    for value in (x, y):
        operand = low.operand(value)
        if value.width == 1 and n > 1:
            operand = replace(operand, stride=0)
        elif value.width != n:
            raise NotLowered(f"{name} of {value.width} with {n} features")
        operands.append(operand)
    low.emit("BINARY", kind=BINARY[name], n=n, y=Operand(made.slot), a=operands[0], b=operands[1])
    return made


def _scalar(low: Lowering, node: Node, a: Any, x: Any, kind: int) -> RowValue:
    if not isinstance(x, int | float):
        raise NotLowered("a number that depends on sizes")
    value = low.rows(a)
    return _unary(low, node, value, kind, float(x))


def _unary(low: Lowering, node: Node, value: RowValue, kind: int, x: float = 0.0) -> RowValue:
    space = PER_ROW if value.space == PER_ROW else PER_SENTENCE
    made = low.fresh(value.width, low.axes(node), space)
    low.emit("UNARY", kind=kind, n=value.width, x=x, y=Operand(made.slot), a=low.operand(value))
    return made


@handles("tanh", "sigmoid", "relu", "silu")
def activation(low: Lowering, node: Node, x: Any) -> Any:
    kind = UNARY[node.name.split(".")[1]]
    value = low.get(x, lazy=True)
    if isinstance(value, Sum) and low.once(x) and not value.act:
        return replace(value, act=kind + 1)
    return _unary(low, node, low.rows(x), kind)


@handles("glu")
def glu(low: Lowering, node: Node, x: Any, dim: int = -1) -> RowValue:
    value = low.straight(low.rows(x))
    if dim not in (-1, len(value.axes) - 1) or len([a for a in value.features if a.size != 1]) != 1:
        raise NotLowered("glu of another axis")
    half = value.width // 2
    made = low.fresh(half, low.axes(node))
    a = low.operand(value)
    low.emit("GLU", n=half, y=Operand(made.slot), a=a, b=replace(a, offset=a.offset + half))
    return made


@handles("layer_norm")
def layer_norm(
    low: Lowering,
    node: Node,
    x: Any,
    shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *_: Any,
) -> RowValue:
    value = low.straight(low.rows(x))
    if value.width != shape[-1] or len(shape) != 1 or weight is None or bias is None:
        raise NotLowered("layer_norm of another form")
    space = PER_ROW if value.space == PER_ROW else PER_SENTENCE
    made = low.fresh(value.width, low.axes(node), space)
    low.emit(
        "NORM",
        n=value.width,
        x=eps,
        y=Operand(made.slot),
        a=low.operand(value),
        b=low.constant_rows(low.constant(weight)),
        c=low.constant_rows(low.constant(bias)),
    )
    return made


@handles("log_softmax")
def log_softmax(low: Lowering, node: Node, x: Any, dim: int, dtype: Any = None) -> RowValue:
    value = low.straight(low.rows(x))
    last = dim in (-1, len(value.axes) - 1) and len([a for a in value.features if a.size > 1]) == 1
    if not last or value.space != PER_ROW:
        raise NotLowered("log_softmax of another axis")
    made = low.fresh(value.width, low.axes(node))
    low.emit("LOG_SOFTMAX", n=value.width, y=Operand(made.slot), a=low.operand(value))
    return made


@handles("embedding")
def embedding(low: Lowering, node: Node, weight: Any, ids: Any, *_: Any, **__: Any) -> Any:
    table, value = low.constant(weight), low.get(ids)
    if not isinstance(value, Integers) or any(a.label == "S" for a in low.axes(node)):
        raise NotLowered("vectors of a number of words that varies")
    if low.slots[value.slot].space != PER_ROW:
        raise NotLowered("vectors of words of the source")
    n = table.shape[1]
    made = []
    for k in range(value.width):
        one = low.fresh(n, low.axes(node)) if value.width == 1 else low.fresh(n, _row_of(low, node))
        low.emit(
            "GATHER",
            n=n,
            y=Operand(one.slot),
            a=Operand(value.slot, value.offset + k),
            b=low.constant_rows(table),
        )
        made.append(one)
    return made[0] if len(made) == 1 else Parts(tuple(made), low.axes(node))


def _row_of(low: Lowering, node: Node) -> Any:
    """The axes of one vector of several."""
    axes = low.axes(node)
    return (*(axis for axis in axes if axis.label in "BWR"), axes[-1])


@handles(*COMPARISONS)
def compare(low: Lowering, node: Node, x: Any, k: Any) -> Integers:
    value = low.get(x)
    one = isinstance(value, Integers) and value.width == 1 and not isinstance(k, Ref)
    if not one or not isinstance(k, int) or low.slots[value.slot].space != PER_ROW:
        raise NotLowered("a comparison of this form")
    slot = low.slot(1, integers=True)
    kind = COMPARISONS[node.name.split(".")[1]]
    a = Operand(value.slot, value.offset)
    low.emit("COMPARE", kind=kind, k=int(k), y=Operand(slot), a=a)
    return Integers(slot, low.axes(node))


@handles("masked_fill")
def masked_fill(low: Lowering, node: Node, x: Any, mask: Any, fill: Any) -> Any:
    value, hidden = low.get(x), low.get(mask)
    if not isinstance(hidden, Integers) or hidden.width != 1 or isinstance(fill, Ref):
        raise NotLowered("masked_fill of this form")
    if isinstance(value, Integers):
        if value.width != 1:
            raise NotLowered("masked_fill of several integers")
        slot = low.slot(1, integers=True)
        a = Operand(value.slot, value.offset)
        low.emit("FILL", k=int(fill), y=Operand(slot), a=a, b=_flag(hidden))
        return Integers(slot, value.axes)
    rows = low.rows(x)
    made = low.fresh(rows.width, low.axes(node))
    low.emit(
        "MASK",
        n=rows.width,
        kind=0,
        x=float(fill),
        y=Operand(made.slot),
        a=low.operand(rows),
        b=_flag(hidden),
    )
    return made


def _flag(mask: Integers) -> Operand:
    if mask.width != 1:
        raise NotLowered("a mask of several columns")
    return Operand(mask.slot, mask.offset)
