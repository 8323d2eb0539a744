"""Taggers as one ONNX graph: the emissions of every word, and the chain's weights where one is.

    words (B, T), lengths (B,), marks (B, T), characters (B, T, C), features (B, T, F), 64-bit
    integers; marks, characters and features where the model reads them
    emissions (B, T, tags), zero at padding; transitions (tags, tags), start and end (tags,)

ONNX has an LSTM with lengths of its own, so that the packed layouts and the loops of ours, which
no exporter can follow, are one node here.
"""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.convert._graph import OnnxGraph
from regard.errors import RequestError
from regard.layers.bilstm import BiLSTM
from regard.layers.positional_encoding import LearnedPositions
from regard.models.bilstm_crf import BiLSTMCRF
from regard.models.srl_attention import (
    DeepAttTagger,
    GatedConvolution,
    PositionwisePerceptron,
    SummedLSTM,
)

__all__ = ["TAGGERS", "tagger_graph"]

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
    """A graph with the words of a batch, where they are real, and what is read beside them."""

    def __init__(self, model: Any, heads: int = 1) -> None:
        super().__init__(_Anatomy(model, getattr(model, "dim", 0), heads))
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

    def lstm(self, path: str, lstm: BiLSTM, x: str, lengths: str) -> tuple[str, str]:
        """Both directions, states first in time: x (T, B, D) to (T, 2, B, H), last (2, B, H)."""
        sides = [(f"{path}.{side}.stack", getattr(lstm, side).stack) for side in ("ahead", "back")]
        stacked = []
        for name in ("weight_ih_l0", "weight_hh_l0"):
            both = torch.stack([_gates(getattr(stack, name)) for _, stack in sides])
            stacked.append(self.weight(f"{path}.{name}", both))
        biases = [
            torch.cat([_gates(stack.bias_ih_l0), _gates(stack.bias_hh_l0)]) for _, stack in sides
        ]
        stacked.append(self.weight(f"{path}.bias", torch.stack(biases)))
        count = self.put("Cast", lengths, to=6)  # 32-bit
        hidden = sides[0][1].hidden_size
        states, last = self.put_many(
            "LSTM", [x, *stacked, count], 2, hidden_size=hidden, direction="bidirectional"
        )
        return states, last

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


def tagger_graph(model: nn.Module) -> Any:
    """The ONNX model of a tagger.

    Raises:
        RequestError: a tagger of another kind.
    """
    make = next((made for kind, made in TAGGERS.items() if type(model) is kind), None)
    if make is None:
        names = " and ".join(kind.__name__ for kind in TAGGERS)
        raise RequestError(
            f"of taggers only {names} can be exported; this is a {type(model).__name__}"
        )
    return make(model).model("tagger")


def _deep_att(model: Any) -> TaggerGraph:
    graph = TaggerGraph(model, model.layers[0].attention.heads)
    x = graph.table("embed", graph.words)
    if model.mark is not None:
        marks = graph.enter("marks", ["batch", "time"], whole=True)
        x = graph.put("Concat", x, graph.table("mark", marks), axis=2)
    x = graph.put("Mul", x, graph.constant(math.sqrt(model.dim), np.float32))
    x = graph.put("Add", graph.put("Mul", x, graph.kept), graph.weight("bias", model.bias))
    table = graph.weight("positions", _positions(model))
    ends = graph.put("Unsqueeze", graph.time, graph.constant([0]))
    places = graph.put("Slice", table, graph.constant([0]), ends, graph.constant([0]))
    x = graph.put("Add", x, places)
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


def _positions(model: Any) -> Tensor:
    place = model.position
    length = len(place.table) if isinstance(place, LearnedPositions) else POSITIONS
    with torch.no_grad():
        table: Tensor = place(torch.zeros(1, length, model.dim))[0]
    return table.detach()


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


def _bilstm_crf(model: Any) -> TaggerGraph:
    graph = TaggerGraph(model)
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


def _gates(weight: Tensor) -> Tensor:
    """Gates in ONNX's order i, o, f, g, from PyTorch's i, f, g, o."""
    i, f, g, o = weight.detach().chunk(4)
    return torch.cat([i, o, f, g])


SUBLAYERS: Mapping[type[nn.Module], Callable[[TaggerGraph, str, Any, str], str]] = {
    PositionwisePerceptron: _perceptron,
    SummedLSTM: _summed,
    GatedConvolution: _gated,
}
TAGGERS: Mapping[type[nn.Module], Callable[[Any], TaggerGraph]] = {
    DeepAttTagger: _deep_att,
    BiLSTMCRF: _bilstm_crf,
}
"""What can be exported, and what makes its graph."""
