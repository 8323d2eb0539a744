"""Attention over the edges of a graph, as maps of nodes that look at their neighbors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError
from regard.views import Axis, Map, axis_of

__all__ = ["MOST", "EdgeWeights", "edge_map", "node_axes"]

MOST = 5000
"""Nodes that a view has room for: one head of this many takes 100 MB while it is drawn."""

Floats = NDArray[np.float32]


class EdgeWeights:
    """The weights of edges: which node looks, at which, and how much.

    Args:
        nodes: how many there are at least; those that no edge names are seen too.
        keys: how many nodes are looked at, at least, where they are others than those that look.

    Shapes:
        targets, sources (E); weights (heads, E)
    """

    def __init__(
        self, targets: Any, sources: Any, weights: Any, *, nodes: int = 0, keys: int | None = None
    ) -> None:
        self.targets: NDArray[np.int64] = np.asarray(targets, np.int64)
        self.sources: NDArray[np.int64] = np.asarray(sources, np.int64)
        self.weights: Floats = np.asarray(weights, np.float32)
        self.looking = 1 + int(self.targets.max(initial=-1))
        self.looked = 1 + int(self.sources.max(initial=-1))
        self.nodes = max(nodes, self.looking, self.looked if keys is None else 0)
        self.keys = None if keys is None else max(keys, self.looked)
        if self.weights.shape[1:] != self.targets.shape:
            raise RequestError(
                f"expected a weight for each of {len(self.targets)} edges, got weights of "
                f"{self.weights.shape[-1]}"
            )

    def dense(self, head: int, nodes: int, keys: int) -> Floats:
        """One head, (nodes, keys); edges between the same two nodes add up."""
        made = np.zeros((nodes, keys), np.float32)
        np.add.at(made, (self.targets, self.sources), self.weights[head])
        return made


def node_axes(
    layers: Sequence[EdgeWeights], rows: Any, columns: Any = None
) -> tuple[Axis, Axis | None]:
    """The nodes of all layers: one set with every pair that an edge joins, or two sets.

    Args:
        columns: names of the nodes that are looked at, where these are others.

    Raises:
        RequestError: fewer labels than nodes, more nodes than a view has room for, layers of one
            set beside layers of two.
    """
    two = {layer.keys is not None for layer in layers}
    if len(two) > 1:
        raise RequestError("graphs of one set of nodes and of two cannot be one view")
    nodes = max(layer.nodes for layer in layers)
    if True in two:
        keys = max(layer.keys or 0 for layer in layers)
        return Axis(_names(nodes, rows), "nodes"), Axis(_names(keys, columns), "nodes")
    joined = {
        (int(t), int(s))
        for layer in layers
        for t, s in zip(layer.targets, layer.sources, strict=True)
        if t != s
    }
    return Axis(_names(nodes, rows), "nodes", edges=sorted(joined)), None


def _names(nodes: int, labels: Any) -> list[str]:
    """Those that were given, else numbers."""
    pieces = [str(i) for i in range(nodes)]
    if labels is not None:
        named = axis_of(labels)
        if len(named) < nodes:
            raise RequestError(f"expected {nodes} labels for {nodes} nodes, got {len(named)}")
        pieces = named.pieces
    if len(pieces) > MOST:
        raise RequestError(
            f"a view has room for {MOST} nodes, got {len(pieces)}; "
            "choose some, as torch_geometric.utils.k_hop_subgraph does"
        )
    return pieces


def edge_map(
    name: str, sides: tuple[int, int], counts: tuple[int, int], edges: EdgeWeights, **more: Any
) -> Map:
    """One attention; a head is made dense only while it is looked at."""

    def load(head: int) -> Floats:
        return edges.dense(head, *counts)

    return Map(name, *sides, (len(edges.weights), *counts), load, kind="edges", **more)
