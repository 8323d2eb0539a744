"""How attention to a source is lowered: by dot products, a perceptron, or part by part."""

from typing import Any

import torch
from torch import nn

from regard.attention import (
    Additive,
    Coverage,
    Dot,
    Entmax15,
    General,
    IntraTemporal,
    Lengths,
    LocalMonotonic,
    LocalPredictive,
    Location,
    LocationAware,
    Memory,
    PreviousWeights,
    ScaledDot,
    Sharpen,
    Smooth,
    Softmax,
    Sparsemax,
    TopK,
    Uniform,
    WeightedSum,
)
from regard.attention.call import Call
from regard.attention.plain import altered
from regard.decode.program.instructions import (
    BY_KEYS,
    MOST_FILTERS,
    SELECTIONS,
    UNARY,
    Operand,
)
from regard.decode.program.lowering import Lowering, handles, weight_of
from regard.decode.program.lowering_past import asked_row, attend_past, named
from regard.decode.program.lowering_words import WordLowering, attend_within
from regard.decode.program.recorder import Node
from regard.decode.program.rows import (
    PER_ROW,
    ByKeys,
    HeadWeights,
    NotLowered,
    Parts,
    RowAxis,
    RowValue,
    Sum,
)

__all__: list[str] = []

ROW = RowAxis("R")
READ_SCALES = (None, "root length", "length")
DOTS = (Dot, General, ScaledDot, Uniform)


@handles("attend")
def attend(low: Lowering, node: Node, query: Any, key: Any, value: Any = None, **how: Any) -> None:
    """Attention to a memory of the source, or to a cache."""
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
    if isinstance(low, WordLowering):
        attend_within(low, node, query, key, call, how)
        return
    if not isinstance(key, Memory) or value is not None or key.turned is not None:
        raise NotLowered("attend to what is no memory")
    if attend_past(low, node, query, key, call, how.get("at")):
        return
    if type(read) is not WeightedSum or how.get("position") is not None or how.get("mask"):
        raise NotLowered(f"attend with {named(call)}")
    memory: Any = key
    _check_memory(low, memory)
    slots = {
        "keys": low.entered[memory.key.index],
        "values": low.entered[memory.value.index],
    }
    if memory.mask is not None:
        slots["lengths"] = low.entered[memory.mask.lengths.index]
    plain = type(select) is Softmax
    if plain and carry is None and type(score) in DOTS:
        _dot(low, node, query, memory, slots, score, select, read)
        return
    if memory.heads:
        raise NotLowered(f"attend with several heads and {named(call)}")
    if plain and type(score) is Additive:
        _additive(low, node, query, memory, slots, how)
    else:
        _by_parts(low, node, query, memory, slots, call, how)


def _check_memory(low: Lowering, key: Any) -> None:
    """Refuse a memory that is not one of each sentence of the source."""
    keys = low.program.shapes[key.key.index]
    if key.key.index not in low.entered or low.symbols.label(keys[-2]) == "W":
        raise NotLowered("attend to a memory that grows")
    if low.slots[low.entered[key.key.index]].space == PER_ROW:
        raise NotLowered("attend to a memory of hypotheses")
    if key.mask is not None and type(key.mask) is not Lengths:
        raise NotLowered(f"a memory with a {type(key.mask).__name__}")
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
        Sum(((low.straight(x), weight_of(score.query)),), None, (ROW, RowAxis("f", n, 1)))
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
            c=low.constant_rows(weight_of(score.features).flatten()),
            **given,
        )
        low.values[node.out.state.value.index] = ByKeys(memory["new_state"])
    low.values[node.out.context.index] = made
    if weights is not None:
        low.values[weights.index] = ByKeys(memory["weights"])


def _dot(
    low: Lowering, node: Node, query: Any, key: Any, memory: Any, score: Any, select: Any, read: Any
) -> None:
    keys, values = (low.program.shapes[ref.index] for ref in (key.key, key.value))
    if key.prepared is not None and key.prepared != key.key:
        memory["keys"] = low.entered[key.prepared.index]
        keys = low.program.shapes[key.prepared.index]
    n, m = keys[-1], values[-1]
    heads = keys[1] if key.heads else 1
    x, scale = asked_row(low, query, score, n, heads)
    axes = low.symbols.axes(low.program.shapes[node.out.context.index])
    made = low.fresh(heads * m, axes)
    if node.out.weights is not None:
        slot = memory["weights"] = low.slot(BY_KEYS, times=heads)
        labels = [low.symbols.label(n) for n in low.program.shapes[node.out.weights.index]]
        low.values[node.out.weights.index] = (
            HeadWeights(slot, labels[2:3] == ["W"]) if key.heads else ByKeys(slot)
        )
    if key.heads:
        low.turned |= {
            n for n, slot in low.entered.items() if slot in (memory["keys"], memory["values"])
        }
    low.emit(
        "ATTEND_DOT",
        n=n,
        m=m,
        heads=heads,
        x=scale / select.temperature,
        memory=memory,
        kind=READ_SCALES.index(read.scale),
        before=int(key.heads),
        y=Operand(made.slot),
        a=low.operand(x),
    )
    low.values[node.out.context.index] = made


def _by_parts(
    low: Lowering, node: Node, query: Any, key: Any, memory: Any, call: Any, how: Any
) -> None:
    """Scores, what a carry makes of them, weights, and what is read: an instruction each."""
    score, carry = call.score, call.carry
    carries = {LocationAware: PreviousWeights}.get(type(score), IntraTemporal)
    if type(score) not in (*DOTS, Location, LocationAware, Additive) or type(carry) not in (
        type(None),
        carries,
    ):
        raise NotLowered(f"attend with {named(call)}")
    if call.read.scale is not None:
        raise NotLowered("a read that is scaled")
    m = low.program.shapes[key.value.index][-1]
    weights = low.slot(BY_KEYS)
    own = {"weights": weights}
    lengths = {**own, **({"lengths": memory["lengths"]} if "lengths" in memory else {})}
    x = low.straight(low.rows(query))
    if type(score) is Location:
        size = score.table.out_features
        asked = low.solid(Sum(((x, weight_of(score.table)),), None, (ROW, RowAxis("f", size, 1))))
        low.emit("SCORE_PLACES", n=size, a=low.operand(asked), memory=own)
    elif isinstance(score, Additive):
        _perceptron(low, x, key, score, lengths, how)
    else:
        keys = key.key if key.prepared is None else key.prepared
        n = low.program.shapes[keys.index][-1]
        asked, scale = asked_row(low, query, score, n)
        given = {**own, "keys": low.entered[keys.index]}
        low.emit("SCORE_DOT", n=n, x=scale, a=low.operand(asked), memory=given)
    if type(carry) is IntraTemporal:
        before = low.get(how["state"].value)
        if not isinstance(before, ByKeys):
            raise NotLowered("a state of another form")
        after = low.slot(BY_KEYS)
        low.emit("LOWER_AGAIN", n=1, memory={**own, "state": before.slot, "new_state": after})
        low.values[node.out.state.value.index] = ByKeys(after)
    _select(low, call.select, x, how.get("at"), lengths)
    made = low.fresh(m, low.symbols.axes(low.program.shapes[node.out.context.index]))
    low.emit("READ", n=1, m=m, y=Operand(made.slot), memory={**lengths, "values": memory["values"]})
    low.values[node.out.context.index] = made
    if node.out.weights is not None:
        low.values[node.out.weights.index] = ByKeys(weights)
    if type(carry) is PreviousWeights:
        low.values[node.out.state.value.index] = ByKeys(weights)


def _perceptron(
    low: Lowering, query: RowValue, key: Any, score: Any, memory: Any, how: Any
) -> None:
    """Scores of a perceptron, with filters over earlier weights where it has some."""
    n = len(score.v)
    if score.heads != 1 or type(score) not in (Additive, LocationAware):
        raise NotLowered("attend with several additive heads")
    more: dict[str, Any] = {}
    if type(score) is LocationAware:
        value = None if how.get("state") is None else low.get(how["state"].value)
        if not isinstance(value, ByKeys) or how.get("carry") is None:
            raise NotLowered("weights of another form")
        if type(score.filters) is not nn.Conv1d or "forward" in vars(score.filters):
            raise NotLowered("filters of another form")
        filters = score.filters.weight.detach()[:, 0]
        if len(filters) > MOST_FILTERS:
            raise NotLowered(f"{len(filters)} filters")
        more = {"k": len(filters), "columns": filters.shape[1]}
        memory = {
            **memory,
            "state": value.slot,
            "packed": low.constant_rows(filters).slot,
            "new_state": low.constant_rows(weight_of(score.features).T).slot,
        }
    elif score.features is not None:
        raise NotLowered("features without filters")
    asked = low.solid(Sum(((query, weight_of(score.query)),), None, (ROW, RowAxis("f", n, 1))))
    keys = key.prepared[0] if isinstance(key.prepared, tuple) else key.prepared
    low.emit(
        "SCORE_LOCATED",
        n=n,
        a=Operand(asked.slot),
        b=low.constant_rows(score.v),
        memory={**memory, "keys": low.entered[keys.index]},
        **more,
    )


def _select(low: Lowering, select: Any, query: RowValue, at: Any, memory: Any) -> None:
    """Weights of scores."""
    kind = type(select)
    given: dict[str, Any] = {"n": 1, "x": 1.0, "memory": memory}
    if kind in (Softmax, Sharpen):
        name, given["x"] = "all", 1 / select.temperature
    elif kind is Smooth:
        name = "smooth"
    elif kind is Sparsemax or kind is Entmax15:
        name = "sparsemax" if kind is Sparsemax else "entmax"
    elif kind is TopK:
        name, given["k"] = "best", select.k
    elif kind is LocalMonotonic:
        if select.stride or not low.symbols.at_step(at) or at.c < 0:
            raise NotLowered("a window at another place than the step's")
        name = "stopped" if select.clamp else "at step"
        given |= {"k": at.c, "before": select.reach}
    elif kind is LocalPredictive:
        name = "predicted"
        given |= {"before": select.reach, "a": low.operand(_place(low, select, query))}
    else:
        raise NotLowered(f"attend with {kind.__name__}")
    low.emit("SELECT", kind=SELECTIONS[name], **given)


def _place(low: Lowering, select: LocalPredictive, query: RowValue) -> RowValue:
    """Where in the source a query looks, before the sigmoid."""
    row = (ROW, RowAxis("f", select.project.out_features, 1))
    hidden = low.solid(Sum(((query, weight_of(select.project)),), None, row, UNARY["tanh"] + 1))
    return low.solid(Sum(((hidden, weight_of(select.v)),), None, (ROW, RowAxis("f", 1, 1))))
