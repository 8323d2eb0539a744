"""A Transformer as two ONNX graphs, node by node: what reads a source, and one step of decoding.

Nodes and inputs are plain values; `model` makes an ONNX model of them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from regard.convert._anatomy import Anatomy

__all__ = [
    "ACTIVATIONS",
    "FLOAT32",
    "INT64",
    "OPSET",
    "GraphNode",
    "GraphValue",
    "OnnxGraph",
    "Subgraph",
    "encoder_graph",
    "step_graph",
]

OPSET = 17
"""The first with LayerNormalization."""
IR = 9
FLOAT32, INT64 = 1, 7
"""Numbers of dtypes in ONNX (`onnx.TensorProto`)."""


class GraphNode(NamedTuple):
    """An operator of ONNX, and the names of the values that it reads and makes."""

    kind: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    attributes: Mapping[str, Any]


class GraphValue(NamedTuple):
    """An input or output of a graph: name, number of the dtype, and the shape if it is known."""

    name: str
    dtype: int
    shape: Sequence[str | int] | None


class Subgraph(NamedTuple):
    """The graph that a node repeats; it may read values of the graph around it."""

    name: str
    nodes: Sequence[GraphNode]
    inputs: Sequence[GraphValue]
    outputs: Sequence[GraphValue]


class OnnxGraph:
    """Nodes and constants as they are added; every method gives the name of what it computes."""

    def __init__(self, made: Any, prefix: str = "") -> None:
        self.made, self.prefix = made, prefix  # before the names of nodes
        self.nodes: list[GraphNode] = []
        self.constants: dict[str, np.ndarray] = {}
        self.inputs: list[GraphValue] = []
        self.outputs: list[GraphValue] = []

    def put(self, kind: str, *inputs: str, into: str = "", **attributes: Any) -> str:
        """Add a node with one output."""
        name = into or self._name(kind)
        self.nodes.append(GraphNode(kind, inputs, [name], attributes))
        return name

    def put_many(
        self, kind: str, inputs: Sequence[str], count: int, **attributes: Any
    ) -> list[str]:
        """Add a node with several outputs."""
        name = self._name(kind)
        outputs = [f"{name}.{k}" for k in range(count)]
        self.nodes.append(GraphNode(kind, inputs, outputs, attributes))
        return outputs

    def _name(self, kind: str) -> str:
        return f"{self.prefix}{kind.lower()}.{len(self.nodes)}"

    def constant(self, value: Any, kind: Any = np.int64) -> str:
        """A small constant; equal ones are one."""
        array = np.asarray(value, kind)
        name = f"constant.{array.dtype}.{array.tolist()}"
        self.constants[name] = array
        return name

    def weight(self, name: str, tensor: Tensor) -> str:
        """A weight under the name that it has here."""
        self.constants[name] = tensor.detach().float().numpy()
        return name

    def enter(self, name: str, shape: list[str | int], whole: bool = False) -> str:
        """An input: numbers, or with `whole` 64-bit integers."""
        self.inputs.append(GraphValue(name, INT64 if whole else FLOAT32, shape))
        return name

    def leave(self, name: str, shape: list[str | int], value: str) -> None:
        """An output."""
        self.put("Identity", value, into=name)
        self.outputs.append(GraphValue(name, FLOAT32, shape))

    def linear(self, path: str, layer: nn.Linear, x: str) -> str:
        """Multiply by a layer's matrix and add its bias, if it has one."""
        out = self.put("MatMul", x, self.weight(f"{path}.weight", layer.weight.T.contiguous()))
        return self.shift(path, layer, out)

    def shift(self, path: str, layer: nn.Linear, x: str) -> str:
        """Add a layer's bias, if it has one."""
        bias: Tensor | None = layer.bias
        return x if bias is None else self.put("Add", x, self.weight(f"{path}.bias", bias))

    def project(self, x: str) -> str:
        """Scores of the whole vocabulary; a matrix that is the embedding too is kept once."""
        model = self.made.model
        if self.made.tied == "none":
            return self.linear("output", model.output, x)
        table = self.weight("embed_target.weight", model.embed_target.weight)
        out = self.put("MatMul", x, self.put("Transpose", table, perm=[1, 0]))
        return self.shift("output", model.output, out)

    def norm(self, path: str, norm: nn.LayerNorm, x: str) -> str:
        """Layer normalization over the last axis."""
        weights = self.weight(f"{path}.weight", norm.weight), self.weight(f"{path}.bias", norm.bias)
        return self.put("LayerNormalization", x, *weights, axis=-1, epsilon=norm.eps)

    def split(self, x: str) -> str:
        """(B, T, D) to (B, H, T, D / H)."""
        made = self.made
        shape = self.constant([0, -1, made.heads, made.dim // made.heads])
        return self.put("Transpose", self.put("Reshape", x, shape), perm=[0, 2, 1, 3])

    def keys(self, path: str, attention: Any, x: str) -> tuple[str, str]:
        """Keys and values of some states, by heads."""
        return (
            self.split(self.linear(f"{path}.key", attention.key, x)),
            self.split(self.linear(f"{path}.value", attention.value, x)),
        )

    def look(self, path: str, attention: Any, x: str, keys: str, values: str, mask: str) -> str:
        """Attention of x to keys and values; `mask` says where it may look, empty everywhere."""
        made = self.made
        query = self.split(self.linear(f"{path}.query", attention.query, x))
        scale = self.constant(1 / math.sqrt(made.dim // made.heads), np.float32)
        turned = self.put("Transpose", keys, perm=[0, 1, 3, 2])
        scores = self.put("MatMul", self.put("Mul", query, scale), turned)
        if mask:
            never = self.constant(-1e30, np.float32)
            scores = self.put("Where", mask, scores, never)
        context = self.put("MatMul", self.put("Softmax", scores, axis=-1), values)
        whole = self.put("Transpose", context, perm=[0, 2, 1, 3])
        joined = self.put("Reshape", whole, self.constant([0, -1, made.dim]))
        return self.linear(f"{path}.out", attention.out, joined)

    def around(self, path: str, residual: Any, x: str, sublayer: Any) -> str:
        """A residual connection with its norm."""
        if self.made.pre_norm:
            return self.put("Add", x, sublayer(self.norm(f"{path}.norm", residual.norm, x)))
        return self.norm(f"{path}.norm", residual.norm, self.put("Add", x, sublayer(x)))

    def feed(self, path: str, layer: Any, x: str) -> str:
        """The feed-forward layer."""
        hidden = self.linear(f"{path}.into", layer.into, x)
        return self.linear(
            f"{path}.out", layer.out, ACTIVATIONS[self.made.activation](self, hidden)
        )

    def real(self, lengths: str, size: str) -> str:
        """Where keys are no padding: (B, 1, 1, S)."""
        places = self.put("Range", self.constant(0), size, self.constant(1))
        ends = self.put("Unsqueeze", lengths, self.constant([1, 2, 3]))
        return self.put("Less", places, ends)

    def embed(self, name: str, ids: str) -> str:
        """Word vectors, scaled."""
        table = self.weight(f"{name}.weight", getattr(self.made.model, name).weight)
        x = self.put("Gather", table, ids)
        return self.put("Mul", x, self.constant(self.made.scale, np.float32))

    def last(self, side: str, x: str) -> str:
        """The norm behind a stack, where there is one."""
        norm = getattr(self.made.model, f"{side}_norm")
        return self.norm(f"{side}_norm", norm, x) if self.made.pre_norm else x

    def model(self, name: str) -> Any:
        """The ONNX model."""
        from onnx import checker, helper, numpy_helper

        kept = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = _protobuf(Subgraph(name, self.nodes, self.inputs, self.outputs), kept)
        whole = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            producer_name="regard",
            ir_version=IR,
        )
        checker.check_model(whole)
        return whole


def encoder_graph(made: Anatomy, positions: int) -> Any:
    """From `source` (B, S) and `lengths` (B,) to each decoder layer's memory keys and values."""
    graph = OnnxGraph(made)
    source = graph.enter("source", ["batch", "length"], whole=True)
    lengths = graph.enter("lengths", ["batch"], whole=True)
    size = graph.put("Gather", graph.put("Shape", source), graph.constant(1))
    table = graph.weight("positions", made.positions(positions))
    ends = graph.put("Unsqueeze", size, graph.constant([0]))
    places = graph.put("Slice", table, graph.constant([0]), ends, graph.constant([0]))
    x, mask = (
        graph.put("Add", graph.embed("embed_source", source), places),
        graph.real(lengths, size),
    )
    for path, layer in made.layers_of("encoder"):
        own = f"{path}.self_attention"

        def attend(y: str, own: str = own, layer: Any = layer) -> str:
            keys, values = graph.keys(own, layer.self_attention, y)
            return graph.look(own, layer.self_attention, y, keys, values, mask)

        x = graph.around(f"{path}.self_residual", layer.self_residual, x, attend)
        x = _fed(graph, path, layer, x)
    x = graph.last("encoder", x)
    for i, (path, layer) in enumerate(made.layers_of("decoder")):
        both = graph.keys(f"{path}.cross_attention", layer.cross_attention, x)
        for kind, value in zip(("keys", "values"), both, strict=True):
            graph.leave(f"memory_{kind}.{i}", _cache(made, "length"), value)
    return graph.model("encoder")


def step_graph(made: Anatomy, positions: int) -> Any:
    """From `tokens` (B, 1), `step` (), `lengths` (B,), memories and caches to `logits` (B, V)."""
    graph = OnnxGraph(made)
    tokens = graph.enter("tokens", ["batch", 1], whole=True)
    step = graph.enter("step", [], whole=True)
    lengths = graph.enter("lengths", ["batch"], whole=True)
    table = graph.weight("positions", made.positions(positions))
    x = graph.put("Add", graph.embed("embed_target", tokens), graph.put("Gather", table, step))
    memories = [
        [graph.enter(f"memory_{kind}.{i}", _cache(made, "length")) for kind in ("keys", "values")]
        for i in range(made.decoder_layers)
    ]
    size = graph.put("Gather", graph.put("Shape", memories[0][0]), graph.constant(2))
    mask = graph.real(lengths, size)
    for i, (path, layer) in enumerate(made.layers_of("decoder")):

        def look_back(y: str, i: int = i, path: str = path, layer: Any = layer) -> str:
            own, both = f"{path}.self_attention", []
            new = graph.keys(own, layer.self_attention, y)
            for kind, value in zip(("keys", "values"), new, strict=True):
                past = graph.enter(f"{kind}.{i}", _cache(made, "past"))
                both.append(graph.put("Concat", past, value, axis=2))
                graph.leave(f"next_{kind}.{i}", _cache(made, "now"), both[-1])
            return graph.look(own, layer.self_attention, y, both[0], both[1], "")

        def look_up(y: str, i: int = i, path: str = path, layer: Any = layer) -> str:
            keys, values = memories[i]
            return graph.look(
                f"{path}.cross_attention", layer.cross_attention, y, keys, values, mask
            )

        x = graph.around(f"{path}.self_residual", layer.self_residual, x, look_back)
        x = graph.around(f"{path}.cross_residual", layer.cross_residual, x, look_up)
        x = _fed(graph, path, layer, x)
    logits = graph.project(graph.last("decoder", x))
    flat = graph.put("Squeeze", logits, graph.constant([1]))
    graph.leave("logits", ["batch", made.model.target_vocab_size], flat)
    return graph.model("step")


def _fed(graph: OnnxGraph, path: str, layer: Any, x: str) -> str:
    def feed(y: str) -> str:
        return graph.feed(f"{path}.feedforward", layer.feedforward, y)

    return graph.around(f"{path}.feedforward_residual", layer.feedforward_residual, x, feed)


def _cache(made: Anatomy, length: str) -> list[str | int]:
    return ["batch", made.heads, length, made.dim // made.heads]


def _protobuf(graph: Subgraph, constants: Sequence[Any] = ()) -> Any:
    """A graph as ONNX writes it."""
    from onnx import helper

    nodes = [
        helper.make_node(
            one.kind,
            one.inputs,
            one.outputs,
            name=one.outputs[0].removesuffix(".0") if len(one.outputs) > 1 else one.outputs[0],
            **{
                name: _protobuf(value) if isinstance(value, Subgraph) else value
                for name, value in one.attributes.items()
            },
        )
        for one in graph.nodes
    ]
    inputs, outputs = (
        [helper.make_tensor_value_info(*one) for one in some]
        for some in (graph.inputs, graph.outputs)
    )
    return helper.make_graph(nodes, graph.name, inputs, outputs, constants)


def _number(graph: OnnxGraph, value: float) -> str:
    return graph.constant(value, np.float32)


def _swish(graph: OnnxGraph, x: str) -> str:
    return graph.put("Mul", x, graph.put("Sigmoid", x))


def _half_of(graph: OnnxGraph, x: str, inner: str) -> str:
    """The half of x, times 1 + inner."""
    half = graph.put("Mul", x, _number(graph, 0.5))
    return graph.put("Mul", half, graph.put("Add", inner, _number(graph, 1.0)))


def _gelu(graph: OnnxGraph, x: str) -> str:
    return _half_of(graph, x, graph.put("Erf", graph.put("Mul", x, _number(graph, 0.5**0.5))))


def _gelu_tanh(graph: OnnxGraph, x: str) -> str:
    cube = graph.put("Mul", graph.put("Pow", x, _number(graph, 3.0)), _number(graph, 0.044715))
    inner = graph.put("Mul", graph.put("Add", x, cube), _number(graph, math.sqrt(2 / math.pi)))
    return _half_of(graph, x, graph.put("Tanh", inner))


ACTIVATIONS: Mapping[str, Callable[[OnnxGraph, str], str]] = {
    "relu": lambda graph, x: graph.put("Relu", x),
    "tanh": lambda graph, x: graph.put("Tanh", x),
    "swish": _swish,
    "gelu": _gelu,
    "gelu-tanh": _gelu_tanh,
}
