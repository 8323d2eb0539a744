"""Compressed rows of a graph, in memory or in mapped files, and the neighborhoods of some nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regard.attention import Edges
from regard.errors import RequestError
from regard.layers.subgraph import SampledSubgraph

__all__ = ["Compressed"]

_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Compressed:
    """The neighbors of each node one behind the other: node i's are from offsets[i] on.

    Arrays may be mapped from files (`numpy.load(..., mmap_mode="r")`): only what a step needs is
    read.

    Args:
        offsets, sources: as above.
        looped: some node is its own neighbor here already.

    Shapes:
        offsets (N + 1), sources (E); sources of one node rise, each there once
    """

    offsets: NDArray[np.integer]
    sources: NDArray[np.integer]
    looped: bool = True

    @classmethod
    def of(cls, pairs: NDArray[np.int64], nodes: int) -> "Compressed":
        """From pairs (source above target) in any order; a pair that is there twice counts once."""
        flat = np.unique(pairs[1] * nodes + pairs[0])
        target, source = np.divmod(flat, max(nodes, 1))
        offsets = np.zeros(nodes + 1, np.int64)
        np.cumsum(np.bincount(target, minlength=nodes), out=offsets[1:])
        return cls(offsets, source, looped=bool((source == target).any()))

    def check(self) -> None:
        """Refuse offsets that do not rise from 0 to the last edge, and neighbors that are no node.

        Raises:
            RequestError: with the first of them.
        """
        offsets, last = np.asarray(self.offsets), len(self.sources)
        rising = len(offsets) > 0 and offsets[0] == 0 and (np.diff(offsets) >= 0).all()
        if not rising or offsets[-1] != last:
            raise RequestError(f"a graph expected offsets that rise from 0 to its {last} edges")
        for start in range(0, last, _BLOCK):
            block = np.asarray(self.sources[start : start + _BLOCK])
            if block.min() < 0 or block.max() >= len(self):
                wrong = int(block.min()) if block.min() < 0 else int(block.max())
                raise RequestError(
                    f"a graph of {len(self)} nodes has an edge with node {wrong}; "
                    f"nodes are 0 to {len(self) - 1}"
                )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def pairs(self) -> NDArray[np.int64]:
        """(2, E), source above target."""
        targets = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        return np.stack([np.asarray(self.sources, np.int64), targets])

    def degrees(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many neighbors each of these nodes has."""
        return np.asarray(self.offsets[nodes + 1], np.int64) - self.offsets[nodes]

    def neighbors(
        self, nodes: NDArray[np.int64], most: int | None, random: np.random.Generator | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(place among `nodes`, neighbor) of each edge; at most `most` of a node, drawn evenly."""
        counts = self.degrees(nodes)
        place = np.repeat(np.arange(len(nodes)), counts)
        ends = np.cumsum(counts)
        within = np.arange(len(place)) - (ends - counts)[place]
        if most is not None and random is not None and len(counts) and counts.max() > most:
            order = np.lexsort((random.random(len(place)), place))  # shuffled within each node
            kept = np.sort(order[within < most])
            place, within = place[kept], within[kept]
        at = np.asarray(self.offsets[nodes], np.int64)[place] + within
        return place, np.asarray(self.sources[at], np.int64)

    def k_hop_subgraph(
        self,
        nodes: NDArray[np.int64],
        depth: int,
        *,
        loops: bool = True,
        fanout: Sequence[int] | None = None,
        random: np.random.Generator | None = None,
    ) -> tuple[NDArray[np.int64], SampledSubgraph]:
        """What `depth` layers need to answer for some nodes.

        Args:
            nodes: asked about, each once.
            depth: how many layers.
            loops: every node looks at itself too.
            fanout: at most this many neighbors in each layer, the last layer first (Hamilton et al.
                2017, GraphSAGE, algorithm 2); all of them where not given.
            random: draws them.

        Returns:
            The nodes whose features are read, those asked about first; and the edges.

        Raises:
            RequestError: not one fan-out for each layer.
        """
        if fanout is not None and len(fanout) != depth:
            raise RequestError(
                f"expected a number of neighbors for each of the {depth} layers, got {fanout!r}"
            )
        near, layers = np.asarray(nodes, np.int64), []
        places = np.full(len(self), -1, np.int32)
        places[near] = np.arange(len(near))
        for layer in range(depth):
            most = None if fanout is None else fanout[layer]
            target, neighbor = self.neighbors(near, most, random)
            new = np.unique(neighbor[places[neighbor] < 0])
            queries = len(near)
            near = np.concatenate([near, new])
            places[new] = np.arange(queries, len(near))
            source = places[neighbor].astype(np.int64)
            if loops:
                own = np.arange(queries)
                target, source = np.concatenate([target, own]), np.concatenate([source, own])
            pairs = torch.from_numpy(np.stack([source, target]))
            layers.append(Edges.of(pairs, queries, keys=len(near)))
        degrees = self.degrees(near)
        if loops:
            degrees = degrees + 1 - (self._loops(near) if self.looped else 0)
        return near, SampledSubgraph(tuple(layers[::-1]), torch.from_numpy(degrees))

    def _loops(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """1 for each of these nodes that is its own neighbor."""
        place, neighbor = self.neighbors(nodes, None, None)
        return np.bincount(place[neighbor == nodes[place]], minlength=len(nodes)).astype(np.int64)
