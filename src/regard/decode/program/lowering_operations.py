"""How named operations are lowered: attention, recurrent units, copied words."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import (
    Additive,
    Coverage,
    Dot,
    General,
    Lengths,
    Memory,
    ScaledDot,
    Softmax,
    Uniform,
    WeightedSum,
)
from regard.attention.call import Call
from regard.attention.plain import altered
from regard.decode.program.instructions import (
    BLOCK,
    BY_KEYS,
    BY_WORDS,
    GRU_BEFORE,
    GRU_INSIDE,
    GRU_KEEP,
    Operand,
)
from regard.decode.program.lowering import Lowering, handles
from regard.decode.program.recorder import Node
from regard.decode.program.rows import (
    CONSTANT,
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
READ_SCALES = (None, "root length", "length")


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
    h = h if low.readable(h) else low.copied(h)
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


@handles("attend")
def attend(low: Lowering, node: Node, query: Any, key: Any, value: Any = None, **how: Any) -> None:
    """Attention to a memory of the source, by dot products or a perceptron."""
    score, select = how.get("score", ScaledDot()), how.get("select", Softmax())
    read, carry = how.get("read", WeightedSum()), how.get("carry")
    call: Any = Call(
        score,
        select,
        read,
        how.get("position"),
        how.get("mask"),
        carry,
        torch.empty(0),
        torch.empty(0),
        torch.empty(0),
    )
    why = altered(call)
    if why is not None:
        raise NotLowered(why)
    plain = type(select) is Softmax and type(read) is WeightedSum and how.get("position") is None
    if not plain or how.get("mask") is not None:
        parts = type(select).__name__, type(read).__name__, type(how.get("position")).__name__
        raise NotLowered(f"attend with {', '.join(parts)}")
    if not isinstance(key, Memory) or value is not None or key.turned is not None:
        raise NotLowered("attend to what is no memory")
    memory: Any = key
    _check_memory(low, memory)
    slots = {
        "keys": low.entered[memory.key.index],
        "values": low.entered[memory.value.index],
    }
    if memory.mask is not None:
        slots["lengths"] = low.entered[memory.mask.lengths.index]
    if isinstance(score, Additive):
        _additive(low, node, query, memory, slots, how)
    elif carry is None and type(score) in (Dot, General, ScaledDot, Uniform):
        _dot(low, node, query, memory, slots, score, select, read)
    else:
        raise NotLowered(f"attend with {type(score).__name__}, {type(carry).__name__}")


def _check_memory(low: Lowering, key: Any) -> None:
    """Refuse a memory that is not one of each sentence of the source."""
    keys = low.program.shapes[key.key.index]
    if key.key.index not in low.entered or low.symbols.label(keys[-2]) == "W":
        raise NotLowered("attend to a memory that grows")
    if low.slots[low.entered[key.key.index]].space == PER_ROW:
        raise NotLowered("attend to a memory of hypotheses")
    if key.mask is not None and type(key.mask) is not Lengths:
        raise NotLowered(f"a memory with a {type(key.mask).__name__}")
    if key.heads:
        raise NotLowered("attend with several heads")
    if low.keys is not None and low.keys != keys[-2]:
        raise NotLowered("memories of different sizes")
    low.keys = keys[-2]


def _additive(low: Lowering, node: Node, query: Any, key: Any, memory: Any, how: Any) -> None:
    score, carry, state = how["score"], how.get("carry"), how.get("state")
    if type(score) is not Additive or score.heads != 1:
        raise NotLowered("attend with several additive heads")
    if getattr(how.get("read"), "scale", None) is not None:
        raise NotLowered("an additive attention whose read is scaled")
    n, m = len(score.v), low.program.shapes[key.value.index][-1]
    x = low.get(query, lazy=True)
    x = low.solid(x) if isinstance(x, Sum | Parts) else x
    axes = low.symbols.axes(low.program.shapes[node.out.context.index])
    asked = low.solid(
        Sum(((low.straight(x), _weight(score.query)),), None, (ROW, RowAxis("f", n, 1)))
    )
    if asked.space != PER_ROW:
        raise NotLowered("a query of sentences")
    prepared = key.prepared if isinstance(key.prepared, tuple) else (key.prepared, None)
    memory["keys"] = low.entered[prepared[0].index]
    made = low.fresh(m, axes)
    temperature = getattr(how.get("select"), "temperature", 1.0)
    given = {
        "n": n,
        "m": m,
        "x": 1 / temperature,
        "y": Operand(made.slot),
        "a": Operand(asked.slot),
        "b": low.constant_rows(score.v),
    }
    weights = node.out.weights
    if carry is None:
        if score.features is not None:
            raise NotLowered("features without a carry")
        low.slots[asked.slot].compact = low.slots[made.slot].compact = True
        if prepared[1] is not None:
            memory["packed"] = low.entered[prepared[1].index]
        if weights is not None:
            memory["weights"] = low.slot(BY_KEYS, compact=True)
        low.emit("ATTEND_ADDITIVE", memory=memory, **given)
    else:
        if type(carry) is not Coverage or score.features is None or score.feature_dim != 1:
            raise NotLowered(f"attend with {type(carry).__name__}")
        if state is None:
            raise NotLowered("a coverage that begins")
        before = low.get(state.value)
        if not isinstance(before, ByKeys):
            raise NotLowered("a coverage of another form")
        memory |= {
            "weights": low.slot(BY_KEYS),
            "state": before.slot,
            "new_state": low.slot(BY_KEYS),
        }
        low.emit(
            "ATTEND_COVERED",
            memory=memory,
            c=low.constant_rows(_weight(score.features).flatten()),
            **given,
        )
        low.values[node.out.state.value.index] = ByKeys(memory["new_state"])
    low.values[node.out.context.index] = made
    if weights is not None:
        low.values[weights.index] = ByKeys(memory["weights"])


def _weight(layer: Any) -> Tensor:
    """The weight of a plain layer without a bias, which C applies in the place of calling it."""
    kind: type = type(layer)
    if kind is not nn.Linear or layer.bias is not None or "forward" in vars(layer):
        raise NotLowered(f"a score with a {kind.__name__}")
    weight: Tensor = layer.weight.detach()
    return weight


def _dot(
    low: Lowering, node: Node, query: Any, key: Any, memory: Any, score: Any, select: Any, read: Any
) -> None:
    keys, values = (low.program.shapes[ref.index] for ref in (key.key, key.value))
    if key.prepared is not None and key.prepared != key.key:
        memory["keys"] = low.entered[key.prepared.index]
        keys = low.program.shapes[key.prepared.index]
    n, m = keys[-1], values[-1]
    if type(score) is Uniform:  # all scores are equal, whatever the query is
        x: Any = low.copied(RowValue(CONSTANT, torch.zeros(n), (ROW, RowAxis("f", n, 1))))
    else:
        x = low.straight(low.rows(query))
    if type(score) is General:
        x = low.solid(Sum(((x, _weight(score.project)),), None, (ROW, RowAxis("f", n, 1))))
    if x.space != PER_ROW or x.width != n:
        raise NotLowered("a query of another form")
    scale = {
        Dot: getattr(score, "scale", 1.0),
        General: 1.0,
        ScaledDot: 1 / math.sqrt(n),
        Uniform: 0.0,
    }[type(score)]
    axes = low.symbols.axes(low.program.shapes[node.out.context.index])
    made = low.fresh(m, axes)
    if node.out.weights is not None:
        memory["weights"] = low.slot(BY_KEYS)
        low.values[node.out.weights.index] = ByKeys(memory["weights"])
    low.emit(
        "ATTEND_DOT",
        n=n,
        m=m,
        x=scale / select.temperature,
        memory=memory,
        kind=READ_SCALES.index(read.scale),
        y=Operand(made.slot),
        a=low.operand(x),
    )
    low.values[node.out.context.index] = made
