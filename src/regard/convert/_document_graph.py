"""HAN as one graph: from the words of a document's sentences to its logits.

    words (S, W), lengths (S,), 64-bit integers: each sentence has a word or more
    logits (1, num_classes)

The recurrences run over all sentences at once. The model itself divides them by length, which no
recording can follow.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import nn

from regard.attention import Dot
from regard.convert._graph import OnnxGraph
from regard.errors import RequestError
from regard.layers.rnn import BiGRU
from regard.models.han import HAN, HANLevel

__all__ = ["document_graph"]


def document_graph(model: nn.Module, path: str = "") -> OnnxGraph:
    """The graph of a model of documents; weights stay as the model has them.

    Args:
        path: before the names of its weights, with a point behind it.

    Raises:
        RequestError: it is not a HAN, or reads by another attention than its paper's.
    """
    if type(model) is not HAN:
        raise RequestError(
            f"program: of models of sentences only HAN has a form, got {type(model).__name__}"
        )
    graph = _DocumentGraph()
    words = graph.enter("words", ["sentences", "longest"], whole=True)
    lengths = graph.enter("lengths", ["sentences"], whole=True)
    x = graph.put("Gather", graph.weight(f"{path}embed.weight", model.embed.weight), words)
    vectors = graph.level(f"{path}words", model.words, x, lengths)
    count = graph.put("Shape", lengths)
    document = graph.put("Unsqueeze", vectors, graph.constant([0]))
    vector = graph.level(f"{path}sentences", model.sentences, document, count)
    logits = graph.affine(f"{path}output", model.output, vector)
    graph.leave("logits", [1, model.num_classes], logits)
    return graph


class _DocumentGraph(OnnxGraph):
    """A graph of sequences in rows: (B, T, D) with the length of each row."""

    def __init__(self) -> None:
        super().__init__(None)

    def affine(self, path: str, layer: nn.Linear, x: str) -> str:
        """A linear layer."""
        weight = self.put("Transpose", self.weight(f"{path}.weight", layer.weight), perm=[1, 0])
        return self.shift(path, layer, self.put("MatMul", x, weight))

    def level(self, path: str, level: HANLevel, x: str, lengths: str) -> str:
        """One vector (B, 2H) of each row."""
        states = self.states(f"{path}.gru", level.gru, x, lengths)
        read = READS.get(type(level.read).__name__)
        if read is None:
            raise RequestError(f"program: {type(level.read).__name__} of HAN has no form there yet")
        size = self.put("Gather", self.put("Shape", x), self.constant(1))
        places = self.put("Range", self.constant(0), size, self.constant(1))
        ends = self.put("Unsqueeze", lengths, self.constant([1]))
        inside = self.put("Unsqueeze", self.put("Less", places, ends), self.constant([2]))
        return read(self, f"{path}.read", level.read, states, inside)

    def states(self, path: str, gru: BiGRU, x: str, lengths: str) -> str:
        """The states (B, T, 2H) of both directions."""
        sides = [(f"{path}.{side}", getattr(gru, side)) for side in ("ahead", "back")]
        parts: list[list[str]] = [[], [], []]
        hidden = gru.ahead.recurrent.hidden
        for own, side in sides:
            if side.recurrent.reset != "after":
                raise RequestError("program: a GRU with the reset before the product has no form")
            take = side.recurrent.update == "take"
            given = (
                ("input.weight", side.input.weight),
                ("recurrent.weight", side.recurrent.weight),
            )
            for some, (name, weight) in zip(parts, given, strict=False):
                some.append(self._turned(f"{own}.{name}", weight, hidden, take))
            bias = self._turned(f"{own}.input.bias", side.input.bias, hidden, take)
            none = self.constant([0.0] * 3 * hidden, np.float32)
            parts[2].append(self.put("Concat", bias, none, axis=0))
        stacked = [
            self.put(
                "Concat", *(self.put("Unsqueeze", one, self.constant([0])) for one in some), axis=0
            )
            for some in parts
        ]
        found, _ = self.put_many(
            "GRU",
            [
                self.put("Transpose", x, perm=[1, 0, 2]),
                *stacked,
                self.put("Cast", lengths, to=6),  # 32-bit
            ],
            2,
            hidden_size=hidden,
            direction="bidirectional",
            linear_before_reset=1,
        )
        turned = self.put("Transpose", found, perm=[2, 0, 1, 3])  # (B, T, 2, H)
        return self.put("Reshape", turned, self.constant([0, 0, 2 * hidden]))

    def _turned(self, name: str, weight: Any, hidden: int, take: bool) -> str:
        """Gates in ONNX's order z, r, n, from r, z, n; ONNX's z keeps the old state."""
        sizes = self.constant([hidden] * 3)
        r, z, n = self.put_many("Split", [self.weight(name, weight), sizes], 3, axis=0)
        return self.put("Concat", self.put("Neg", z) if take else z, r, n, axis=0)


def _attended(graph: _DocumentGraph, path: str, read: Any, states: str, inside: str) -> str:
    """The mean of the states, weighted by how well their keys match the context vector."""
    if type(read.attention.score) is not Dot:
        raise RequestError("program: HAN with another score than its paper's has no form there yet")
    keys = graph.put("Tanh", graph.affine(f"{path}.key", read.key, states))
    context = graph.weight(f"{path}.context", read.context)
    scores = graph.put("MatMul", keys, graph.put("Unsqueeze", context, graph.constant([1])))
    scale = graph.constant(read.attention.score.scale, np.float32)
    never = graph.constant(-1e30, np.float32)
    scores = graph.put("Where", inside, graph.put("Mul", scores, scale), never)
    return _summed(graph, graph.put("Softmax", scores, axis=1), states)


def _mean(graph: _DocumentGraph, path: str, read: Any, states: str, inside: str) -> str:
    shares = graph.put("Cast", inside, to=1)
    count = graph.put("ReduceSum", shares, graph.constant([1]), keepdims=1)
    return _summed(graph, graph.put("Div", shares, count), states)


def _largest(graph: _DocumentGraph, path: str, read: Any, states: str, inside: str) -> str:
    low = graph.constant(-np.inf, np.float32)
    return graph.put("ReduceMax", graph.put("Where", inside, states, low), axes=[1], keepdims=0)


def _summed(graph: _DocumentGraph, shares: str, states: str) -> str:
    weighted = graph.put("Mul", shares, states)
    return graph.put("ReduceSum", weighted, graph.constant([1]), keepdims=0)


READS: Mapping[str, Callable[[_DocumentGraph, str, Any, str, str], str]] = {
    "_Attended": _attended,
    "_Mean": _mean,
    "_Max": _largest,
}
"""How a level makes one vector of many, by the class of its `read`."""
