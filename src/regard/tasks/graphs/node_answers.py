"""Predictions for nodes, with the neighbors that they attended to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.fields.graph import GraphData
from regard.tasks.prediction import Prediction
from regard.watching.watcher import watch

__all__ = ["NodeAttention", "NodePrediction", "looked_at"]


@dataclass(frozen=True, eq=False)
class NodeAttention:
    """Where one node looked in one layer.

    Args:
        attention: path of the module.
        nodes: its neighbors.
        weights: of each head.
        names: of the neighbors, where nodes have names.

    Shapes:
        nodes (n,), weights (head, n)
    """

    attention: str
    nodes: NDArray[np.int64]
    weights: Tensor
    names: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain values: neighbors by falling weight, the mean over heads."""
        mean = self.weights.mean(0)
        order = torch.sort(mean, descending=True, stable=True).indices.tolist()
        named = self.names or self.nodes.tolist()
        rows = [{"node": named[i], "weight": round(float(mean[i]), 5)} for i in order]
        return {"attention": self.attention, "neighbors": rows}


@dataclass(frozen=True, eq=False)
class NodePrediction(Prediction):
    """The class of a node, and where it looked in each layer that attends."""

    looked: Sequence[NodeAttention] = ()

    def as_json(self) -> dict[str, Any]:
        """As of every prediction, and `looked`."""
        return {**super().as_json(), "looked": [one.as_json() for one in self.looked]}


@torch.no_grad()
def looked_at(
    model: nn.Module, world: GraphData, nodes: NDArray[np.int64]
) -> tuple[Tensor, list[list[NodeAttention]]]:
    """Logits of some nodes, and for each of them where it looked in each layer.

    A model that does not say how far it sees reads the whole graph.
    """
    device = next(model.parameters()).device
    depth = getattr(model, "depth", None)
    with watch(model) as seen:
        if depth is None:
            read, hops = np.arange(len(world.graph)), None
            at = torch.from_numpy(nodes)
            logits = model(world.features.to(device), world.edges.to(device)).logits[at.to(device)]
        else:
            at = torch.arange(len(nodes))
            read, features, hops = world.near(nodes, depth)
            logits = model(features.to(device), hops.to(device)).logits
    layers = []
    for i, (name, record) in enumerate(seen.items()):
        edges = world.edges if hops is None else hops.layers[i]
        layers.append((name, edges, record.steps[-1].float().cpu()))
    found = []
    for row in at.tolist():
        own = []
        for name, edges, weights in layers:
            first, end = edges.offsets[row : row + 2].tolist()
            heads = weights.reshape(-1, weights.shape[-1])
            near = read[edges.sources[first:end].numpy()]
            names = [world.graph.nodes[i] for i in near] if world.graph.nodes else ()
            own.append(NodeAttention(name, near, heads[:, first:end], names))
        found.append(own)
    return logits, found
