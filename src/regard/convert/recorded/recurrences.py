"""Recurrences, caches and experts in ONNX: what steps as often as there are words is one node."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from regard.convert._graph import FLOAT32, GraphValue, OnnxGraph, Subgraph
from regard.convert.recorded.arguments import arguments
from regard.convert.recorded.graph import Form, NoForm, ProgramGraph
from regard.decode.program.recorder import Node
from regard.decode.program.tree import Ref, leaves, refs

__all__ = ["RECURRENCES"]

LSTM_ORDER = (0, 3, 1, 2)
"""Gates of PyTorch (i f g o) in the order of ONNX (i o f c)."""
GRU_ORDER = (1, 0, 2)
"""Gates of PyTorch (r z n) in the order of ONNX (z r h)."""


def _stacks(kind: str, order: Sequence[int]) -> Form:
    """`lstm` and `gru` of PyTorch: a node a layer, both directions in it."""

    def form(g: ProgramGraph, node: Node) -> list[str]:
        a = arguments(node)
        if "batch_sizes" in a:
            raise NoForm("packed sequences")
        states = list(a["hx"]) if kind == "LSTM" else [a["hx"]]
        sides = 2 if a["bidirectional"] else 1
        each = 4 if a["has_biases"] else 2
        weights = [_constant(g, one) for one in a["params"]]
        x = g.of(a["input"])
        if a["batch_first"]:
            x = g.put("Transpose", x, perm=[1, 0, 2])
        first = [g.of(one) for one in states]
        if len(weights) == (each + 1) * sides * a["num_layers"]:
            made = _projected(g, x, first, weights, a["num_layers"], sides)
            if a["batch_first"]:
                made[0] = g.put("Transpose", made[0], perm=[1, 0, 2])
            return made
        last: list[list[str]] = [[] for _ in states]
        hidden = int(g.shape(weights[1])[1])  # type: ignore[arg-type]
        more = {} if kind == "LSTM" else {"linear_before_reset": 1}
        for layer in range(a["num_layers"]):
            own = [
                weights[each * (sides * layer + side) : each * (sides * layer + side + 1)]
                for side in range(sides)
            ]
            begin = [
                g.put(
                    "Slice",
                    one,
                    g.constant([sides * layer]),
                    g.constant([sides * (layer + 1)]),
                    g.constant([0]),
                )
                for one in first
            ]
            bias = ""
            if a["has_biases"]:
                both = [[_turned(g, one, order) for one in w[2:]] for w in own]
                bias = _stacked(g, [g.put("Concat", *one, axis=0) for one in both])
            found = g.put_many(
                kind,
                [
                    x,
                    _stacked(g, [_turned(g, w[0], order) for w in own]),
                    _stacked(g, [_turned(g, w[1], order) for w in own]),
                    bias,
                    "",
                    *begin,
                ],
                1 + len(states),
                hidden_size=hidden,
                direction="bidirectional" if sides == 2 else "forward",
                **more,
            )
            # (T, sides, B, H) to (T, B, sides * H)
            moved = g.put("Transpose", found[0], perm=[0, 2, 1, 3])
            x = g.put("Reshape", moved, g.constant([0, 0, sides * hidden]))
            for every, one in zip(last, found[1:], strict=True):
                every.append(one)
        if a["batch_first"]:
            x = g.put("Transpose", x, perm=[1, 0, 2])
        ends = [one[0] if len(one) == 1 else g.put("Concat", *one, axis=0) for one in last]
        return [x, *ends]

    return form


def _projected(
    g: ProgramGraph,
    x: str,
    first: Sequence[str],
    weights: Sequence[Ref],
    layers: int,
    sides: int,
) -> list[str]:
    """An LSTM whose states are projected, which ONNX does not have: a scan a layer and side."""
    each = len(weights) // (layers * sides)
    hs, cs = [], []
    for layer in range(layers):
        both = []
        for side in range(sides):
            place = sides * layer + side
            own = [g.of(one) for one in weights[each * place : each * (place + 1)]]
            read, recurrent, out = (g.put("Transpose", own[k], perm=[1, 0]) for k in (0, 1, -1))
            gates = g.put("MatMul", x, read)
            if each == 5:
                gates = g.put("Add", gates, g.put("Add", own[2], own[3]))
            h, c = (g.put("Gather", one, g.of(place), axis=0) for one in first)
            states, h, c = _lstm_scan(g, gates, recurrent, h, c, out, back=side == 1)
            both.append(states)
            hs.append(g.put("Unsqueeze", h, g.constant([0])))
            cs.append(g.put("Unsqueeze", c, g.constant([0])))
        x = both[0] if sides == 1 else g.put("Concat", *both, axis=2)
    ends = [one[0] if len(one) == 1 else g.put("Concat", *one, axis=0) for one in (hs, cs)]
    return [x, *ends]


def _lstm_states(g: ProgramGraph, node: Node) -> str:
    """`models.deep_att.states_of`: gates (B, T, 4H) to states (B, T, H), from zero."""
    inputs, recurrent = node.args
    hidden = g.shape(recurrent)[1]
    turned = g.put("Transpose", g.of(inputs), perm=[1, 0, 2])
    zero = _zeros(g, [g.shape(inputs)[0], hidden])
    weight = g.put("Transpose", g.of(recurrent), perm=[1, 0])
    states, _, _ = _lstm_scan(g, turned, weight, zero, zero, "")
    return g.put("Transpose", states, perm=[1, 0, 2])


def _lstm_scan(
    g: ProgramGraph, gates: str, recurrent: str, h: str, c: str, out: str, *, back: bool = False
) -> tuple[str, str, str]:
    """All steps of an LSTM: gates i f g o (T, B, 4H), turned weights; states, last h and c."""
    body = Body(f"scan.{len(g.nodes)}", states=2)
    before, cell = body.states
    own = body.put("Add", body.now, body.put("MatMul", before, recurrent))
    i, f, n, o = body.put_many("Split", [own], 4, axis=1)
    i, f, o = (body.put("Sigmoid", one) for one in (i, f, o))
    new = body.put("Add", body.put("Mul", f, cell), body.put("Mul", i, body.put("Tanh", n)))
    state = body.put("Mul", o, body.put("Tanh", new))
    state = body.put("MatMul", state, out) if out else state
    how = {"scan_input_directions": [1], "scan_output_directions": [1]} if back else {}
    graph = body.graph(state, new)
    last = g.put_many("Scan", [h, c, gates], 3, body=graph, num_scan_inputs=1, **how)
    return last[2], last[0], last[1]


def _constant(g: ProgramGraph, x: Ref) -> Ref:
    if g.held(x) is None:
        raise NoForm("weights that are computed from the input")
    return x


def _turned(g: ProgramGraph, weight: Ref, order: Sequence[int]) -> str:
    """The gates of a weight or a bias in the order of ONNX."""
    each = int(g.shape(weight)[0]) // len(order)  # type: ignore[arg-type]
    gates = g.put_many("Split", [g.of(weight), g.constant([each] * len(order))], len(order), axis=0)
    return g.put("Concat", *(gates[k] for k in order), axis=0)


def _stacked(g: ProgramGraph, parts: Sequence[str]) -> str:
    each = [g.put("Unsqueeze", one, g.constant([0])) for one in parts]
    return each[0] if len(each) == 1 else g.put("Concat", *each, axis=0)


def _recurrence(g: ProgramGraph, node: Node) -> str:
    """The house's gated unit (`layers._gated`) as a scan over its steps.

    Inputs (T, N, 3H) are the part of the input in the gates r, z, n.
    """
    inputs, state, weight = node.args[:3]
    how = dict(node.kwargs)
    inside = node.args[3] if len(node.args) > 3 else how.get("inside")
    before, keep = how.get("before", True), how.get("keep", True)
    if how.get("sizes") is not None:
        raise NoForm("sequences of different lengths")
    hidden = int(g.shape(weight)[1])  # type: ignore[arg-type]
    begun = g.of(state) if isinstance(state, Ref) else _zeros(g, [g.shape(inputs)[1], hidden])
    turned = g.put("Transpose", g.of(weight), perm=[1, 0])
    gates, last = g.put_many("Split", [turned, g.constant([2 * hidden, hidden])], 2, axis=1)
    more = g.of(inside) if isinstance(inside, Ref) else ""
    sizes = g.constant([hidden] * 2), g.constant([hidden] * 3)
    unit = _Unit(gates, last, more, *sizes, before=before, keep=keep)
    if g.shape(inputs)[0] == 1:
        now = g.put("Squeeze", g.of(inputs), g.constant([0]))
        return g.put("Unsqueeze", unit.step(g, now, begun), g.constant([0]))
    body = Body(f"scan.{len(g.nodes)}")
    graph = body.graph(unit.step(body, body.now, body.states[0]))
    return g.put_many("Scan", [begun, g.of(inputs)], 2, body=graph, num_scan_inputs=1)[1]


def _zeros(g: ProgramGraph, shape: Sequence[Any]) -> str:
    return g.put("Expand", g.of(0.0), g.sizes(shape))


class _Unit(NamedTuple):
    """A gated unit: names of its weights (H, 2H) and (H, H), and how it is built."""

    gates: str
    last: str
    inside: str
    pair: str
    three: str
    before: bool
    keep: bool

    def step(self, g: OnnxGraph, now: str, h: str) -> str:
        """One step: h' = h + g (n - h), g = z or 1 - z."""
        r, z, n = g.put_many("Split", [now, self.three], 3, axis=1)
        own = g.put_many("Split", [g.put("MatMul", h, self.gates), self.pair], 2, axis=1)
        r, z = (g.put("Sigmoid", g.put("Add", x, y)) for x, y in zip((r, z), own, strict=True))
        if self.before:
            read = g.put("MatMul", g.put("Mul", r, h), self.last)
        else:
            read = g.put("MatMul", h, self.last)
            read = g.put("Add", read, self.inside) if self.inside else read
            read = g.put("Mul", r, read)
        apart = g.put("Sub", g.put("Tanh", g.put("Add", n, read)), h)
        moved = g.put("Mul", z, apart)
        moved = g.put("Sub", apart, moved) if self.keep else moved
        return g.put("Add", h, moved)


class Body(OnnxGraph):
    """The graph of one step within a scan; it reads values of the graph around it."""

    def __init__(self, name: str, states: int = 1) -> None:
        super().__init__(None, f"{name}.")
        self.name = name
        self.states = [f"{name}.state.{k}" for k in range(states)]
        self.now = f"{name}.now"

    def graph(self, *new: str) -> Subgraph:
        """The graph: states and what is read, to the new states, and the first of them again."""
        given = [*self.states, self.now]
        made = [f"{self.name}.next.{k}" for k in range(len(new) + 1)]
        for name, value in zip(made, [*new, new[0]], strict=True):
            self.put("Identity", value, into=name)
        inputs, outputs = (
            [GraphValue(name, FLOAT32, None) for name in names] for names in (given, made)
        )
        return Subgraph(self.name, self.nodes, inputs, outputs)


def _appended(g: ProgramGraph, node: Node) -> list[str]:
    """A cache with more keys: each of its parts with the new ones behind it."""
    a = dict(zip(("self", "key", "value", "prepared"), node.args, strict=False)) | node.kwargs
    memory, out = a["self"], node.out
    olds = leaves((memory.key, memory.value, memory.prepared), Ref)
    news = leaves((a["key"], a["value"], a.get("prepared")), Ref)
    made = {}
    for one, old, new in zip(
        leaves((out.key, out.value, out.prepared), Ref), olds, news, strict=True
    ):
        if one.index not in made:
            made[one.index] = g.put("Concat", g.of(old), g.of(new), axis=g.rank(old) - 2)
    return [made[number] for number in refs(out)]


def _experts(g: ProgramGraph, node: Node) -> list[str]:
    """A mixture of experts: all compute, and those that were not chosen count nothing."""
    layer, x = node.args[0], node.args[1]
    gates = layer.gates
    if gates.training:
        raise NoForm("training")
    rows = g.reshaped(g.of(x), [-1, g.shape(x)[-1]])
    raw = g.put("MatMul", rows, g.tensor(gates.gate))
    kept, places = g.put_many("TopK", [raw, g.constant([gates.k])], 2, axis=1)
    shares = g.put("Softmax", kept, axis=1)
    nothing = g.put("Mul", raw, g.of(0.0))
    weights = g.put("ScatterElements", nothing, places, shares, axis=1)
    hidden = g.put(
        "Relu", g.put("MatMul", g.put("Unsqueeze", rows, g.constant([0])), g.tensor(layer.into))
    )
    said = g.put("MatMul", hidden, g.tensor(layer.out))  # (experts, rows, dim)
    turned = g.put("Unsqueeze", g.put("Transpose", weights, perm=[1, 0]), g.constant([2]))
    y = g.put("ReduceSum", g.put("Mul", said, turned), g.constant([0]), keepdims=0)
    y = g.put("Sigmoid", y) if layer.squash else y
    made = g.reshaped(y, g.shape(node.out[0]))
    return [made, g.of(0.0)]


RECURRENCES: Mapping[str, Form] = {
    "lstm": _stacks("LSTM", LSTM_ORDER),
    "gru": _stacks("GRU", GRU_ORDER),
    "recurrence": _recurrence,
    "lstm_states": _lstm_states,
    "append": _appended,
    "experts": _experts,
}
"""The form of each operation, as in `operations.OPERATIONS`."""
