"""A recorded graph as plain values, for `program.json`: weights by the names of the folder's."""

import base64
from collections.abc import Collection
from typing import Any

import numpy as np
from torch import nn

from regard.convert._graph import GraphNode, OnnxGraph, Subgraph
from regard.errors import RequestError
from regard.layers.positional_encoding import Sinusoid

__all__ = ["stored_graph"]

LARGEST = 1 << 16
"""Bytes of a constant that is no weight."""


def stored_graph(graph: OnnxGraph, model: nn.Module, weights: Collection[str]) -> dict[str, Any]:
    """Inputs, outputs, nodes and constants of a graph.

    Args:
        weights: the names in the folder's file.

    Raises:
        RequestError: a large constant is not one of the weights.
    """
    tables = {
        f"{path}.table": {"sinusoid": [len(one.table), one.dim, one.layout]}
        for path, one in model.named_modules()
        if isinstance(one, Sinusoid)
    }
    constants: dict[str, Any] = {}
    for name, array in graph.constants.items():
        if name in weights:
            constants[name] = {"weight": name}
        elif name in tables:
            constants[name] = tables[name]
        elif array.nbytes > LARGEST:
            raise RequestError(
                f"program: a constant of {array.nbytes} bytes is not one of the model's weights; "
                "such models have no program yet"
            )
        else:
            constants[name] = _plain(array)
    return {
        "inputs": [one.name for one in graph.inputs],
        "outputs": [one.name for one in graph.outputs],
        "nodes": [_node(one) for one in graph.nodes],
        "constants": constants,
    }


def _plain(array: np.ndarray) -> dict[str, Any]:
    content = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "base64": content}


def _node(node: GraphNode) -> list[Any]:
    attributes = {name: _attribute(value) for name, value in node.attributes.items()}
    if node.kind == "Split" and len(node.inputs) == 1:
        attributes["num_outputs"] = len(node.outputs)
    return [node.kind, list(node.inputs), list(node.outputs), attributes]


def _attribute(value: Any) -> Any:
    if isinstance(value, Subgraph):
        return {
            "nodes": [_node(one) for one in value.nodes],
            "inputs": [one.name for one in value.inputs],
            "outputs": [one.name for one in value.outputs],
        }
    return list(value) if isinstance(value, tuple) else value
