"""Nodes of a graph as a trainer and a model see them: batches, examples, what was looked at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.fields.graph import GraphData
from regard.tasks.prediction import Prediction
from regard.watching.watcher import watch

__all__ = [
    "NodeAttention",
    "NodeBatch",
    "NodeDataset",
    "NodePrediction",
    "WholeGraphs",
    "looked_at",
]


@dataclass(frozen=True, eq=False)
class NodeBatch:
    """The nodes that are asked about, in their graph.

    Args:
        fanout: at most so many neighbors in each layer while training.

    Shapes:
        nodes (n,)
    """

    world: GraphData
    nodes: NDArray[np.int64]
    fanout: Sequence[int] | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    _kept: dict[Any, Any] = field(default_factory=dict)

    @property
    def labels(self) -> Tensor:
        """Classes of the nodes asked about: (n,), or (n, C) of 0 and 1."""
        found: Tensor = self._keep(
            "labels", lambda: torch.from_numpy(np.asarray(self.world.graph.labels[self.nodes]))
        )
        return found

    @property
    def count(self) -> int:
        """How many nodes are asked about."""
        return len(self.nodes)

    def logits(self, model: nn.Module) -> Tensor:
        """Class scores of the nodes asked about: (n, C).

        A model that says how far it sees (`depth`) reads no more of the graph than that.
        """
        depth = getattr(model, "depth", None)
        if depth is None:
            features, edges = self._keep("all", lambda: (self.world.features, self.world.edges))
            found: Tensor = model(features, edges).logits
            return found[torch.from_numpy(self.nodes).to(self.device)]
        if self.fanout is not None and model.training:
            _, features, hops = self.world.near(self.nodes, depth, self.fanout)
            features, hops = features.to(self.device), hops.to(self.device)
        else:
            features, hops = self._keep(depth, lambda: self.world.near(self.nodes, depth)[1:])
        logits: Tensor = model(features, hops).logits
        return logits

    def to(self, device: torch.device | str) -> "NodeBatch":
        """What is read of the graph is moved there once."""
        device = torch.device(device)
        if device == self.device:
            return self
        return NodeBatch(self.world, self.nodes, self.fanout, device, self._kept)

    def _keep(self, what: Any, make: Callable[[], Any]) -> Any:
        """Something made once, on the batch's device."""
        key = (what, self.device)
        if key not in self._kept:
            made = make()
            several = isinstance(made, tuple)
            moved = tuple(x.to(self.device) for x in (made if several else (made,)))
            self._kept[key] = moved if several else moved[0]
        return self._kept[key]


class NodeDataset:
    """Some nodes of a graph, each an example."""

    def __init__(
        self, world: GraphData, index: NDArray[np.int64], fanout: Sequence[int] | None = None
    ) -> None:
        self.world, self.index, self.fanout = world, np.asarray(index, np.int64), fanout
        self.sizes = np.ones((len(index), 2), np.int64)
        self._batches: dict[tuple[int, ...], NodeBatch] = {}
        self.given: list[str] | None = None
        """Each node as a user named it: then it is shown where it looks."""

    @cached_property
    def texts(self) -> list[str]:
        """The names of the nodes."""
        return [self.world.graph.called(node) for node in self.index.tolist()]

    @cached_property
    def references(self) -> list[list[str]]:
        """What is right of each."""
        return [[self.world.graph.told(node)] for node in self.index.tolist()]

    def __len__(self) -> int:
        return len(self.sizes)

    def count(self, indices: Sequence[int]) -> int:
        """Each node counts once."""
        return len(indices)

    def collate(self, indices: Sequence[int]) -> Any:
        """These nodes, in the order of the split; one batch is kept for whole-batch training."""
        key = tuple(sorted(indices))
        if key not in self._batches:
            self._batches = {key: NodeBatch(self.world, self._asked(key), self.fanout)}
        return self._batches[key]

    def subset(self, indices: Sequence[int]) -> "NodeDataset":
        """Some of the nodes."""
        return NodeDataset(self.world, self.index[np.asarray(indices, np.int64)], self.fanout)

    def _asked(self, indices: Sequence[int]) -> NDArray[np.int64]:
        return self.index[list(indices)]


class WholeGraphs(NodeDataset):
    """Whole graphs, each an example: what is trained on where there are several graphs."""

    def __init__(
        self, world: GraphData, index: NDArray[np.int64], fanout: Sequence[int] | None = None
    ) -> None:
        super().__init__(world, index, fanout)
        of = np.searchsorted(np.asarray(world.graph.starts), self.index, side="right")
        self.parts = [self.index[of == one] for one in np.unique(of)]
        counts = np.array([len(part) for part in self.parts], np.int64)
        self.sizes = np.stack([counts, counts], 1)

    def count(self, indices: Sequence[int]) -> int:
        """Each node counts once."""
        return int(self.sizes[list(indices), 0].sum())

    def _asked(self, indices: Sequence[int]) -> NDArray[np.int64]:
        return np.concatenate([self.parts[i] for i in indices])


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
