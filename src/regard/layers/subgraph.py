"""The sampled k-hop neighborhoods of some nodes: the edges that each layer of a network needs."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention import Edges

__all__ = ["SampledSubgraph", "edges_of"]


@dataclass(frozen=True, eq=False)
class SampledSubgraph:
    """The edges that each layer needs to predict some seed nodes, instead of a whole graph.

    Nodes are numbered outwards: the seed nodes, their new neighbors, the new neighbors of those.
    A layer's queries are the first of its keys, and its outputs are the next layer's keys.

    Args:
        layers: the edges of each layer; the first layer reads the features.
        degrees: the number of neighbors in the whole graph of each node that is read.

    Shapes:
        degrees (keys of the first layer)
    """

    layers: tuple[Edges, ...]
    degrees: Int[Tensor, " nodes"]

    def to(self, device: torch.device | str) -> "SampledSubgraph":
        """Move all tensors to a device."""
        moved = tuple(edges.to(device) for edges in self.layers)
        assert all(isinstance(edges, Edges) for edges in moved)
        return SampledSubgraph(moved, self.degrees.to(device))


def edges_of(graph: Edges | SampledSubgraph, layer: int) -> Edges:
    """The edges of a layer, counted from 0."""
    return graph.layers[layer] if isinstance(graph, SampledSubgraph) else graph
