"""How a mixture of experts is lowered: gates are one product, experts one instruction."""

from typing import Any

from torch import nn

from regard.decode.program.instructions import BLOCK, Operand
from regard.decode.program.lowering import Lowering, handles
from regard.decode.program.recorder import Node
from regard.decode.program.rows import PER_ROW, NotLowered, RowAxis, Sum
from regard.layers.experts import Experts, NoisyTopK
from regard.native.packed_products import PANEL

__all__: list[str] = []


@handles("experts")
def experts(low: Lowering, node: Node, layer: Any, x: Any, real: Any = None) -> None:
    """The sum; the penalty is of training alone, and has no value here."""
    plain = type(layer) is Experts and type(layer.gates) is NoisyTopK
    patched = {"forward"} & {*vars(layer), *vars(layer.gates)}
    if not plain or patched or real is not None or layer.training:
        raise NotLowered("experts of another form")
    value = low.straight(low.rows(x))
    count, n, hidden = layer.into.shape
    if value.space != PER_ROW or value.width != n:
        raise NotLowered("experts of sentences")
    gate = layer.gates.gate.detach().t()
    if not gate.any():  # which of equal experts work is for PyTorch to choose
        raise NotLowered("experts whose gates are not trained")
    gates = low.solid(Sum(((value, gate),), None, (RowAxis("R"), RowAxis("f", count, 1))))
    units, out = hidden + -hidden % PANEL, n + -n % PANEL
    into = nn.functional.pad(
        layer.into.detach().transpose(1, 2), (0, -n % BLOCK, 0, units - hidden)
    )
    back = nn.functional.pad(layer.out.detach().transpose(1, 2), (0, units - hidden, 0, out - n))
    made = low.fresh(n, low.symbols.axes(low.program.shapes[node.out[0].index]))
    low.products += 2 * layer.gates.k * n * units
    low.emit(
        "EXPERTS",
        n=n,
        m=units,
        k=layer.gates.k,
        heads=count,
        kind=int(layer.squash),
        y=Operand(made.slot),
        a=low.operand(value),
        b=Operand(gates.slot),
        w=(into.flatten(0, 1), None),
        w2=(back.flatten(0, 1), None),
        memory={
            "keys": low.slot(n),
            "packed": low.slot(units),
            "values": low.slot(out),
            "state": low.slot(count),
        },
    )
    low.values[node.out[0].index] = made
    low.values[node.out[1].index] = None
