"""Taggers as one graph: the emissions of every word, and the chain's weights where one is.

    words (B, T), lengths (B,), marks (B, T), characters (B, T, C), features (B, T, F), 64-bit
    integers; marks, characters and features where the model reads them
    emissions (B, T, tags), zero at padding; transitions (tags, tags), start and end (tags,)

ONNX has an LSTM with lengths of its own, so that the packed layouts and the loops of ours, which
no exporter can follow, are one node here. In a graph for ONNX, matrices are turned and joined
beforehand. One for `program.json` has the weights as the model has them, and nodes that turn them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.convert._graph import OnnxGraph
from regard.convert.recorded.recurrences import LSTM_ORDER, Body
from regard.errors import RequestError
from regard.layers.bilstm import BiLSTM
from regard.layers.highway import HighwayLSTM
from regard.layers.positional_encoding import LearnedPositions, NoPositions
from regard.models.bilstm_crf import BiLSTMCRF
from regard.models.highway_bilstm import HighwayBiLSTM
from regard.models.srl_attention import (
    DeepAttTagger,
    GatedConvolution,
    PositionwisePerceptron,
    SummedLSTM,
)

__all__ = ["TAGGERS", "TaggerGraph", "tagger_graph"]

POSITIONS = 2048
"""The most words of a text, where positions are a table."""


class _Anatomy(NamedTuple):
    """What the attention and the feed-forward layers of a graph go by."""

    model: nn.Module
    dim: int
    heads: int
    activation: str = "relu"
    pre_norm: bool = False


class TaggerGraph(OnnxGraph):
    """A graph with the words of a batch, where they are real, and what is read beside them.

    Args:
        model: the tagger.
        fold: compute once what depends on weights alone; else weights stay as the model has them.
        heads: of its attention.

    Attributes:
        most: the most words of a text; None where nothing limits it.
    """

    def __init__(self, model: Any, fold: bool, heads: int = 1) -> None:
        super().__init__(_Anatomy(model, getattr(model, "dim", 0), heads))
        self.fold = fold
        self.most: int | None = None
        self.words = self.enter("words", ["batch", "time"], whole=True)
        lengths = self.enter("lengths", ["batch"], whole=True)
        # A row has one word at least where recurrences count: no operator takes an empty one.
        self.lengths = self.put("Max", lengths, self.constant([1]))
        self.time = self.put("Gather", self.put("Shape", self.words), self.constant(1))
        places = self.put("Range", self.constant(0), self.time, self.constant(1))
        ends = self.put("Unsqueeze", lengths, self.constant([1]))
        self.inside = self.put("Less", places, ends)
        real = self.put("Cast", self.inside, to=1)
        self.kept = self.put("Unsqueeze", real, self.constant([2]))

    def table(self, path: str, ids: str) -> str:
        """The rows of a model's table."""
        weight = self.made.model.get_parameter(f"{path}.weight")
        return self.put("Gather", self.weight(f"{path}.weight", weight), ids)

    def linear(self, path: str, layer: nn.Linear, x: str) -> str:
        """Multiply by a layer's matrix and add its bias, if it has one."""
        if self.fold:
            return super().linear(path, layer, x)
        weight = self.put("Transpose", self.weight(f"{path}.weight", layer.weight), perm=[1, 0])
        return self.shift(path, layer, self.put("MatMul", x, weight))

    def lstm(self, path: str, lstm: BiLSTM, x: str, lengths: str) -> tuple[str, str]:
        """Both directions, states first in time: x (T, B, D) to (T, 2, B, H), last (2, B, H)."""
        stacked = [
            self._gates(path, lstm, [f"{name}_l0"]) for name in ("weight_ih", "weight_hh")
        ] + [self._gates(path, lstm, ["bias_ih_l0", "bias_hh_l0"])]
        count = self.put("Cast", lengths, to=6)  # 32-bit
        states, last = self.put_many(
            "LSTM",
            [x, *stacked, count],
            2,
            hidden_size=lstm.ahead.stack.hidden_size,
            direction="bidirectional",
        )
        return states, last

    def _gates(self, path: str, lstm: BiLSTM, names: Sequence[str]) -> str:
        """Weights of both directions, those of one behind each other, in ONNX's order of gates."""
        sides = [
            [
                (f"{path}.{side}.stack.{name}", getattr(getattr(lstm, side).stack, name))
                for name in names
            ]
            for side in ("ahead", "back")
        ]
        if self.fold:
            both = [torch.cat([_turned(weight) for _, weight in side]) for side in sides]
            return self.weight(f"{path}.{names[0].removesuffix('_l0')}", torch.stack(both))
        made = []
        for side in sides:
            parts = [gate for name, weight in side for gate in self._turned(name, weight)]
            made.append(
                self.put("Unsqueeze", self.put("Concat", *parts, axis=0), self.constant([0]))
            )
        return self.put("Concat", *made, axis=0)

    def _turned(self, name: str, weight: Tensor) -> list[str]:
        each = self.constant([len(weight) // 4] * 4)
        gates = self.put_many("Split", [self.weight(name, weight), each], 4, axis=0)
        return [gates[k] for k in LSTM_ORDER]

    def read(self, path: str, lstm: BiLSTM, x: str) -> tuple[str, str]:
        """The states (B, T, H) of both directions over the words: x (B, T, D)."""
        states, _ = self.lstm(path, lstm, self.put("Transpose", x, perm=[1, 0, 2]), self.lengths)
        turned = self.put("Transpose", states, perm=[2, 0, 1, 3])  # (B, T, 2, H)
        one, two = (self.put("Gather", turned, self.constant(side), axis=2) for side in (0, 1))
        return one, two

    def emit(self, path: str, layer: nn.Linear, x: str, tags: int) -> None:
        """Leave the emissions, zero at padding."""
        out = self.put("Mul", self.linear(path, layer, x), self.kept)
        self.leave("emissions", ["batch", "time", tags], out)


def tagger_graph(model: nn.Module, *, fold: bool = True) -> TaggerGraph:
    """The graph of a tagger.

    Args:
        fold: see `TaggerGraph`.

    Raises:
        RequestError: a tagger of another kind.
    """
    make = next((made for kind, made in TAGGERS.items() if type(model) is kind), None)
    if make is None:
        *names, last = (kind.__name__ for kind in TAGGERS)
        raise RequestError(
            f"of taggers only {', '.join(names)} and {last} can be exported; this is a "
            f"{type(model).__name__}"
        )
    return make(model, fold)


def _marked(graph: TaggerGraph, model: Any) -> str:
    """The vectors of words, with those of marks behind them where the model reads marks."""
    x = graph.table("embed", graph.words)
    if model.mark is None:
        return x
    marks = graph.enter("marks", ["batch", "time"], whole=True)
    return graph.put("Concat", x, graph.table("mark", marks), axis=2)


def _deep_att(model: Any, fold: bool) -> TaggerGraph:
    graph = TaggerGraph(model, fold, model.layers[0].attention.heads)
    x = _marked(graph, model)
    x = graph.put("Mul", x, graph.constant(math.sqrt(model.dim), np.float32))
    x = graph.put("Add", graph.put("Mul", x, graph.kept), graph.weight("bias", model.bias))
    if not isinstance(model.position, NoPositions):
        table = _positions(model, fold)
        graph.most = len(table)
        ends = graph.put("Unsqueeze", graph.time, graph.constant([0]))
        places = [graph.weight("position.table", table), graph.constant([0]), ends]
        x = graph.put("Add", x, graph.put("Slice", *places, graph.constant([0])))
    mask = graph.put("Unsqueeze", graph.inside, graph.constant([1, 2]))
    for i, layer in enumerate(model.layers):
        path = f"layers.{i}"

        def change(y: str, path: str = path, layer: Any = layer) -> str:
            own = layer.nonlinear
            return SUBLAYERS[type(own)](graph, f"{path}.nonlinear", own, y)

        def look(y: str, path: str = path, layer: Any = layer) -> str:
            own = f"{path}.attention"
            keys, values = graph.keys(own, layer.attention, y)
            return graph.look(own, layer.attention, y, keys, values, mask)

        x = graph.around(f"{path}.nonlinear_residual", layer.nonlinear_residual, x, change)
        x = graph.around(f"{path}.attention_residual", layer.attention_residual, x, look)
    graph.emit("output", model.output, x, model.num_tags)
    return graph


def _positions(model: Any, cut: bool) -> Tensor:
    """The table of positions; that of sinusoids has `POSITIONS`, or without `cut` maybe more."""
    with torch.no_grad():
        if isinstance(model.position, LearnedPositions):
            return model.position.table.detach()
        model.position(torch.zeros(1, POSITIONS, model.dim))
    table: Tensor = model.position.table
    return table[:POSITIONS] if cut else table


def _perceptron(graph: TaggerGraph, path: str, layer: Any, x: str) -> str:
    return graph.feed(f"{path}.feedforward", layer.feedforward, x)


def _summed(graph: TaggerGraph, path: str, layer: Any, x: str) -> str:
    return graph.put("Add", *graph.read(f"{path}.lstm", layer.lstm, x))


def _gated(graph: TaggerGraph, path: str, layer: Any, x: str) -> str:
    own = layer.convolution
    turned = graph.put("Transpose", graph.put("Mul", x, graph.kept), perm=[0, 2, 1])
    weights = (graph.weight(f"{path}.{name}", getattr(own, name)) for name in ("weight", "bias"))
    both = graph.put("Conv", turned, *weights, kernel_shape=[3], pads=[1, 1])
    size = own.out_channels // 2
    ends = [graph.constant([place]) for place in (0, size, 2 * size)]
    gate, value = (
        graph.put("Slice", both, first, last, graph.constant([1])) for first, last in pairwise(ends)
    )
    out = graph.put("Mul", graph.put("Sigmoid", gate), value)
    return graph.put("Transpose", out, perm=[0, 2, 1])


def _highway(model: Any, fold: bool) -> TaggerGraph:
    graph = TaggerGraph(model, fold)
    x = graph.put("Transpose", _marked(graph, model), perm=[1, 0, 2])
    real = graph.put("Transpose", graph.kept, perm=[1, 0, 2])
    for i, layer in enumerate(model.layers):
        x = _highway_layer(graph, f"layers.{i}", layer, x, real, back=i % 2 == 1)
    graph.emit("output", model.output, graph.put("Transpose", x, perm=[1, 0, 2]), model.num_tags)
    return graph


def _highway_layer(
    graph: TaggerGraph, path: str, layer: HighwayLSTM, x: str, real: str, *, back: bool
) -> str:
    """All steps (T, B, H); a state is zero at padding, which a backward layer reads first."""
    body, size = Body(f"scan.{len(graph.nodes)}", states=2), layer.hidden
    before, cell = body.states
    weight = graph.weight(f"{path}.recurrent", layer.recurrent)
    weight = graph.put("Transpose", weight, perm=[1, 0])
    sizes = graph.constant([5 * size, size, 1])
    given, carry, there = body.put_many("Split", [body.now, sizes], 3, axis=1)
    own = body.put("Add", given, body.put("MatMul", before, weight))
    i, f, o, r, j = body.put_many("Split", [own, graph.constant([size] * 5)], 5, axis=1)
    i, f, o, r = (body.put("Sigmoid", one) for one in (i, f, o, r))
    new = body.put("Add", body.put("Mul", i, body.put("Tanh", j)), body.put("Mul", f, cell))
    state = body.put("Mul", o, body.put("Tanh", new))
    state = body.put("Add", carry, body.put("Mul", r, body.put("Sub", state, carry)))
    new, state = (body.put("Mul", one, there) for one in (new, state))
    inputs = graph.put("Concat", graph.linear(f"{path}.input", layer.input, x), real, axis=2)
    batch = graph.put("Slice", graph.put("Shape", x), *map(graph.constant, ([1], [2])))
    shape = graph.put("Concat", batch, graph.constant([size]), axis=0)
    zero = graph.put("Expand", graph.constant(0, np.float32), shape)
    how = {"scan_input_directions": [1], "scan_output_directions": [1]} if back else {}
    return graph.put_many(
        "Scan", [zero, zero, inputs], 3, body=body.graph(state, new), num_scan_inputs=1, **how
    )[2]


def _bilstm_crf(model: Any, fold: bool) -> TaggerGraph:
    graph = TaggerGraph(model, fold)
    parts = [graph.table("embed", graph.words)]
    if model.letters is not None:
        parts.append(_letters(graph, model.letters))
    if model.feature is not None:
        shape: list[str | int] = ["batch", "time", model.feature_columns]
        rows = graph.table("feature", graph.enter("features", shape, whole=True))
        width = model.feature_columns * model.feature.weight.shape[1]
        parts.append(graph.put("Reshape", rows, graph.constant([0, 0, width])))
    if model.mark is not None:
        marks = graph.enter("marks", ["batch", "time"], whole=True)
        parts.append(graph.table("mark", marks))
    x = graph.put("Concat", *parts, axis=2) if len(parts) > 1 else parts[0]
    h = graph.put("Concat", *graph.read("lstm", model.lstm, x), axis=2)
    if model.hidden is not None:
        h = graph.put("Tanh", graph.linear("hidden", model.hidden, h))
    graph.emit("output", model.output, h, model.num_tags)
    tags = model.num_tags
    for name, weight in model.chain()._asdict().items():
        graph.leave(name, [tags] * weight.dim(), graph.weight(f"chain.{name}", weight))
    return graph


def _letters(graph: TaggerGraph, letters: Any) -> str:
    """The last states of both directions over the characters of each word: (B, T, 2H)."""
    ids = graph.enter("characters", ["batch", "time", "letters"], whole=True)
    shape = graph.put("Shape", ids)
    longest = graph.put("Slice", shape, graph.constant([2]), graph.constant([3]))
    flat = graph.put("Reshape", ids, graph.put("Concat", graph.constant([-1]), longest, axis=0))
    there = graph.put("Cast", graph.put("Greater", flat, graph.constant(0)), to=7)
    counts = graph.put("ReduceSum", there, graph.constant([1]), keepdims=0)
    x = graph.put("Transpose", graph.table("letters.embed", flat), perm=[1, 0, 2])
    lengths = graph.put("Max", counts, graph.constant([1]))
    _, last = graph.lstm("letters.lstm", letters.lstm, x, lengths)
    words = graph.put("Slice", shape, graph.constant([0]), graph.constant([2]))
    size = graph.put("Concat", words, graph.constant([letters.size]), axis=0)
    return graph.put("Reshape", graph.put("Transpose", last, perm=[1, 0, 2]), size)


def _turned(weight: Tensor) -> Tensor:
    """Gates in ONNX's order."""
    gates = weight.detach().chunk(4)
    return torch.cat([gates[k] for k in LSTM_ORDER])


SUBLAYERS: Mapping[type[nn.Module], Callable[[TaggerGraph, str, Any, str], str]] = {
    PositionwisePerceptron: _perceptron,
    SummedLSTM: _summed,
    GatedConvolution: _gated,
}
TAGGERS: Mapping[type[nn.Module], Callable[[Any, bool], TaggerGraph]] = {
    DeepAttTagger: _deep_att,
    BiLSTMCRF: _bilstm_crf,
    HighwayBiLSTM: _highway,
}
"""What can be exported, and what makes its graph."""
