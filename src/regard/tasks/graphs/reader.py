"""From the files of a graph to the splits of its nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.dataset import Dataset
from regard.data.problems import Problems
from regard.datasets.split_reader import SplitReader
from regard.errors import RequestError, nearest
from regard.fields import Field
from regard.fields.graph import GraphData
from regard.tasks.graphs.nodes import NodeDataset, WholeGraphs

__all__ = ["GraphReader"]

_KEYS = ("path",)


class GraphReader(SplitReader[NDArray[np.int64], NDArray[np.int64]]):
    """Reads a graph, which says itself which of its nodes are in which split."""

    def __init__(self, task: Any, config: Mapping[str, Any]) -> None:
        super().__init__(task, config)
        for key in config:
            if key not in _KEYS:
                raise RequestError(f"data: graphs have no {key!r}: {nearest(key, _KEYS)}")
        self.world: GraphData = task.world(config.get("path"))

    def files(self, splits: Sequence[str]) -> Mapping[str, NDArray[np.int64]]:
        """The nodes of each split: a graph is read whole, whatever is asked for."""
        return self.world.graph.splits

    def read(self, split: str, source: NDArray[np.int64], problems: Problems) -> NDArray[np.int64]:
        """The numbers of its nodes."""
        return source

    def known(self, fields: Mapping[str, Any]) -> dict[str, Field]:
        """The graph's own: it learned nothing that training could not read again."""
        return dict(self.declared)

    def learn(self, train: NDArray[np.int64]) -> dict[str, Field]:
        """The field of the graph, which knows it."""
        return dict(self.declared)

    def dataset(
        self,
        split: str,
        read: NDArray[np.int64],
        fields: Mapping[str, Field],
        problems: Problems,
    ) -> Dataset:
        """Nodes; of several graphs training takes whole ones."""
        whole = split == "train" and len(self.world.graph.starts) > 1
        kind = WholeGraphs if whole else NodeDataset
        made: Dataset = kind(self.world, read, self.task.neighbors)
        return made

    def sizes(self, fields: Mapping[str, Field]) -> Mapping[str, int]:
        """Features and classes."""
        return self.world.sizes
