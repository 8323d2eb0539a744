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

__all__ = ["NodeBatch", "NodeDataset", "WholeGraphs"]


@dataclass(frozen=True, eq=False)
class NodeBatch:
    """The nodes that are asked about, in their graph.

    Args:
        fanout: at most this many neighbors in each layer while training.

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
