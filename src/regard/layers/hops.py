"""What some nodes' answers depend on: their neighbors, those of these, and so on by layer."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention import Edges

__all__ = ["Hops", "edges_of"]


@dataclass(frozen=True, eq=False)
class Hops:
    """The edges that each layer needs for the answers of some nodes, in place of a whole graph.

    Nodes are numbered from these outwards: the nodes asked about, then what their neighborhoods
    add, then what the neighborhoods of all those add. A layer's queries are the first of its keys,
    and what one layer gives is what the next one reads.

    Args:
        layers: the edges of each layer, the one that reads the features first.
        degrees: of each node that is read, how many neighbors it has in the whole graph.

    Shapes:
        degrees (keys of the first layer)
    """

    layers: tuple[Edges, ...]
    degrees: Int[Tensor, " nodes"]

    def to(self, device: torch.device | str) -> "Hops":
        """Move all of it."""
        moved = tuple(edges.to(device) for edges in self.layers)
        assert all(isinstance(edges, Edges) for edges in moved)
        return Hops(moved, self.degrees.to(device))


def edges_of(graph: Edges | Hops, layer: int) -> Edges:
    """What a layer, counted from 0, looks along."""
    return graph.layers[layer] if isinstance(graph, Hops) else graph
