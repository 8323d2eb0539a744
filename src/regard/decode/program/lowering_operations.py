"""How recurrent units and copied words are lowered."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from regard.decode.program.instructions import (
    BLOCK,
    BY_WORDS,
    GRU_BEFORE,
    GRU_INSIDE,
    GRU_KEEP,
    Operand,
)
from regard.decode.program.lowering import Lowering, handles
from regard.decode.program.lowering_products import readable
from regard.decode.program.recorder import Node
from regard.decode.program.rows import (
    PER_ROW,
    ByKeys,
    NotLowered,
    Parts,
    RowAxis,
    RowValue,
    Sum,
)

__all__: list[str] = []

ROW = RowAxis("R")


@handles("lstm_cell")
def lstm_cell(low: Lowering, node: Node, gates: Any, c: Any) -> list[RowValue]:
    old = low.rows(c)
    return _cell(low, low.rows(gates), old, low.symbols.axes(low.program.shapes[node.out[0].index]))


def _cell(low: Lowering, gates: RowValue, old: RowValue, axes: Any) -> list[RowValue]:
    n = old.width
    if gates.space != PER_ROW or old.space != PER_ROW:
        raise NotLowered("a unit of sentences")
    gates, old = low.straight(gates), low.straight(old)
    h, new = low.fresh(n, axes), low.fresh(n, axes)
    low.emit(
        "LSTM",
        n=n,
        y=Operand(h.slot),
        z=Operand(new.slot),
        a=low.operand(gates),
        b=low.operand(old),
    )
    return [h, new]


@handles("lstm")
def lstm(
    low: Lowering,
    node: Node,
    x: Any,
    hx: Any,
    params: Any,
    biased: bool,
    layers: int,
    dropout: float,
    train: bool,
    both: bool,
    first: bool,
) -> list[RowValue]:
    """`torch.nn.LSTM` over one word: x (N, 1, E), states (L, N, H)."""
    every = 4 if biased else 2
    value, h, c = low.rows(x), low.rows(hx[0]), low.rows(hx[1])
    if both or not first or len(params) != layers * every or low.program.shapes[x.index][1] != 1:
        raise NotLowered("an LSTM of another form")
    hs, cs = [], []
    for layer in range(layers):
        own = [low.constant(one) for one in params[layer * every : (layer + 1) * every]]
        n = own[1].shape[1]
        states = [
            replace(
                s, axes=(ROW, s.axes[2]), offset=s.offset + layer * s.axes[0].stride, whole=False
            )
            for s in (h, c)
        ]
        bias = own[2] + own[3] if biased else None
        axes = (ROW, RowAxis("f", 4 * n, 1))
        gates = low.solid(Sum(((value, own[0]), (low.straight(states[0]), own[1])), bias, axes))
        value, new = _cell(low, gates, states[1], (ROW, RowAxis("f", n, 1)))
        hs.append(value)
        cs.append(new)
    shapes = [low.program.shapes[ref.index] for ref in node.out]
    out = replace(value, axes=low.symbols.axes(shapes[0]))
    ends = []
    for values in (hs, cs):
        n = values[0].width
        side = low.solid(Parts(tuple(values), (ROW, RowAxis("f", layers, n), RowAxis("f", n, 1))))
        row, level, one = side.axes
        level = replace(level, label="f" if layers > 1 else "1")
        ends.append(replace(side, axes=(level, row, one)))
    return [out, *ends]


@handles("recurrence")
def recurrence(
    low: Lowering,
    node: Node,
    inputs: Any,
    state: Any,
    weight: Any,
    inside: Any = None,
    *,
    before: bool = True,
    keep: bool = True,
    sizes: Any = None,
) -> RowValue:
    if low.program.shapes[inputs.index][0] != 1 or sizes is not None or state is None:
        raise NotLowered("a recurrence over several steps")
    x, h, w = low.straight(low.rows(inputs)), low.rows(state), low.constant(weight)
    if x.space != PER_ROW or h.space != PER_ROW:
        raise NotLowered("a unit of sentences")
    n = w.shape[1]
    wide = n + -n % BLOCK
    h = h if readable(low, h) else low.copied(h)
    gates = [nn.functional.pad(g, (0, wide - n, 0, wide - n)) for g in w.split(n)]
    made = low.fresh(n, low.axes(node))
    more: dict[str, Any] = {}
    kind = GRU_BEFORE * before + GRU_KEEP * keep
    if inside is not None:
        kind += GRU_INSIDE
        more["c"] = low.operand(low.straight(low.rows(inside)))
    low.products += w.numel()
    low.emit(
        "GRU",
        n=n,
        kind=kind,
        y=Operand(made.slot),
        a=low.operand(h),
        b=low.operand(x),
        w=(torch.cat(gates[:2] if before else gates), None),
        w2=(gates[2], None) if before else None,
        memory={"keys": low.slot(3 * wide), "packed": low.slot(wide)},
        **more,
    )
    return made


@handles("mixed_log_prob")
def mixture(
    low: Lowering, node: Node, logits: Any, weights: Any, switch: Any, copies: Any, size: Any
) -> ByKeys:
    z, s, w, own = (
        low.straight(low.rows(logits)),
        low.rows(switch),
        low.get(weights),
        low.get(copies),
    )
    if not isinstance(w, ByKeys) or not isinstance(own, ByKeys) or z.space != PER_ROW:
        raise NotLowered("a mixture of another form")
    low.words = size
    slot = low.slot(BY_WORDS)
    low.emit(
        "MIXTURE",
        n=z.width,
        y=Operand(slot),
        a=low.operand(z),
        b=low.operand(s),
        memory={"weights": w.slot, "state": own.slot},
    )
    return ByKeys(slot)
