"""Attention over the edges of a graph, as maps of nodes that look at their neighbors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError
from regard.views import Axis, Map, axis_of

__all__ = ["MOST", "EdgeWeights", "edge_map", "node_axis"]

MOST = 5000
"""Nodes that a view has room for: one head of so many takes 100 MB while it is drawn."""

Floats = NDArray[np.float32]


class EdgeWeights:
    """The weights of edges: which node looks, at which, and how much.

    Args:
        nodes: how many there are at least; those that no edge names are seen too.

    Shapes:
        targets, sources (E); weights (heads, E)
    """

    def __init__(self, targets: Any, sources: Any, weights: Any, *, nodes: int = 0) -> None:
        self.targets: NDArray[np.int64] = np.asarray(targets, np.int64)
        self.sources: NDArray[np.int64] = np.asarray(sources, np.int64)
        self.weights: Floats = np.asarray(weights, np.float32)
        named = max(self.targets.max(initial=-1), self.sources.max(initial=-1))
        self.nodes = max(nodes, 1 + int(named))
        if self.weights.shape[1:] != self.targets.shape:
            raise RequestError(
                f"expected a weight for each of {len(self.targets)} edges, got weights of "
                f"{self.weights.shape[-1]}"
            )

    def dense(self, head: int, nodes: int) -> Floats:
        """One head, (nodes, nodes); edges between the same two nodes add up."""
        made = np.zeros((nodes, nodes), np.float32)
        np.add.at(made, (self.targets, self.sources), self.weights[head])
        return made


def node_axis(layers: Sequence[EdgeWeights], labels: Any) -> Axis:
    """The nodes of all layers, with every pair that an edge joins.

    Raises:
        RequestError: fewer labels than nodes, or more nodes than a view has room for.
    """
    nodes = max(layer.nodes for layer in layers)
    if labels is not None:
        named = axis_of(labels)
        if len(named) < nodes:
            raise RequestError(f"expected {nodes} labels for {nodes} nodes, got {len(named)}")
        pieces = named.pieces
    else:
        pieces = [str(i) for i in range(nodes)]
    if len(pieces) > MOST:
        raise RequestError(
            f"a view has room for {MOST} nodes, got {len(pieces)}; "
            "choose some, as torch_geometric.utils.k_hop_subgraph does"
        )
    joined = {
        (int(t), int(s)) for layer in layers
        for t, s in zip(layer.targets, layer.sources, strict=True) if t != s
    }  # fmt: skip
    return Axis(pieces, "nodes", edges=sorted(joined))


def edge_map(name: str, side: int, nodes: int, edges: EdgeWeights, **more: Any) -> Map:
    """One attention; a head is made dense only while it is looked at."""

    def load(head: int) -> Floats:
        return edges.dense(head, nodes)

    shape = (len(edges.weights), nodes, nodes)
    return Map(name, side, side, shape, load, kind="edges", **more)
