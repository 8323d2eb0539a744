"""Graphs: nodes with features, the edges between them, and the classes of nodes."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.attention import Edges
from regard.data import sources
from regard.data.graphs import files as graph_files
from regard.data.graphs.files import mark_of
from regard.data.graphs.graph import Graph, SparseRows, both_ways
from regard.data.graphs.scaling import KINDS, Scaling
from regard.errors import RequestError, nearest
from regard.fields.base import Bad, Field, Report
from regard.fields.columns import ArrayColumn
from regard.layers.sparse import CSRMatrix
from regard.layers.subgraph import SampledSubgraph

__all__ = ["GraphData", "GraphField", "Paths"]

SEVERAL = 10_000
"""Names among which the nearest one is looked for."""

Paths = str | Sequence[str]


@dataclass(frozen=True, eq=False)
class GraphData:
    """A graph as models read it.

    Args:
        scaling: of the features.
        loops: every node looks at itself too.
    """

    graph: Graph
    scaling: Scaling = field(default_factory=Scaling)
    loops: bool = True

    @property
    def sizes(self) -> dict[str, int]:
        """What a model must know: features of a node, and classes."""
        return {"in_features": self.graph.features.shape[1], "num_classes": self.graph.classes}

    @cached_property
    def features(self) -> CSRMatrix | Tensor:
        """Of all nodes."""
        return self._features(np.arange(len(self.graph)))

    @cached_property
    def edges(self) -> Edges:
        """Of the whole graph."""
        pairs = torch.from_numpy(self.graph.rows.pairs())
        return Edges.of(pairs, len(self.graph), loops=self.loops)

    def near(
        self, nodes: NDArray[np.int64], depth: int, fanout: Sequence[int] | None = None
    ) -> tuple[NDArray[np.int64], CSRMatrix | Tensor, SampledSubgraph]:
        """What a model of `depth` layers reads to answer for some nodes: ids, features, edges.

        Args:
            fanout: at most this many neighbors in each layer, the last layer first, drawn by
                PyTorch's generator.
        """
        random = None
        if fanout is not None:
            random = np.random.default_rng(int(torch.randint(1 << 62, (1,))))
        read, hops = self.graph.rows.k_hop_subgraph(
            nodes, depth, loops=self.loops, fanout=fanout, random=random
        )
        return read, self._features(read), hops

    @cached_property
    def _rows(self) -> SparseRows | NDArray[np.floating]:
        rows = self.graph.features
        return self.scaling.of_sparse(rows) if isinstance(rows, SparseRows) else rows

    def _features(self, nodes: NDArray[np.int64]) -> CSRMatrix | Tensor:
        rows = self._rows
        if isinstance(rows, SparseRows):
            return rows.take(nodes)
        if rows is not self.graph.features:  # scaled already
            return torch.from_numpy(rows[nodes])
        return torch.from_numpy(self.scaling.of_dense(np.asarray(rows[nodes])))


class GraphField(Field):
    """A node of a graph: its features and its neighbors are in the graph's file.

    Args:
        path: the graph's file or folder (`data.graphs.files.read`); several as a list are one graph
            whose parts are not joined; `{train: …, dev: …, test: …}` gives each split graphs of
            its own.
        normalize: how features are scaled, one of `data.graphs.scaling.KINDS`.
        loops: every node looks at itself too.
        undirected: an edge that is listed in one direction counts in both.
        files: what a model folder notes of each of the graph's files; see `noted`.
    """

    kind: ClassVar[str] = "graph"
    saved: ClassVar[bool] = False  # a folder notes where the graph is, in the task's section

    def __init__(
        self,
        path: Paths | Mapping[str, Paths],
        normalize: bool | str = "auto",
        loops: bool = True,
        undirected: bool = False,
        files: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(normalize, bool) and normalize not in KINDS:
            hint = nearest(normalize, KINDS)
            raise RequestError(f"task.normalize: there is no {normalize!r}: {hint}")
        self.path, self.normalize = path, normalize
        self.loops, self.undirected = loops, undirected
        self.files = dict(files or {})
        self.other: str | None = None

    def on(self, graph: str) -> "GraphField":
        """This field for the nodes of another graph with such features, or of its own moved."""
        made = copy(self)
        made.other = graph
        return made

    def read(self, cell: str, row: Mapping[str, Any]) -> tuple[GraphData, int]:
        """The node that a text names, and its graph."""
        found = self.find(cell)
        if isinstance(found, str):
            raise Bad(found)
        return found

    def encode(
        self,
        values: Sequence[tuple[GraphData, int]],
        report: Report,
        fields: Mapping[str, Field],
        rows: Any = None,
    ) -> ArrayColumn:
        """The numbers of the nodes."""
        return ArrayColumn(np.array([node for _, node in values], np.int64))

    def arguments(self) -> dict[str, int]:
        """Features of a node, and classes."""
        return self.world().sizes

    def noted(self) -> dict[str, Any]:
        """What a model folder keeps: how features are scaled, and where the files are.

        Each file comes with what its contents add up to: it is known again wherever it is.
        """
        found = {path: str(sources.find(path).resolve()) for _, path in _paths(self.path)}
        files = {path: {"at": at, "mark": mark_of(Path(at))} for path, at in found.items()}
        return {"normalize": self.world().scaling.kind, "files": files}

    def find(self, text: str) -> tuple[GraphData, int] | str:
        """The node that a text names, in its graph; or why there is none."""
        world = self.world(self.other)
        graph = world.graph
        part, colon, name = text.strip().rpartition(":")
        first, end = 0, len(graph)
        if colon and part in graph.titles:
            at = list(graph.titles).index(part)
            first, end = graph.starts[at], [*graph.starts, end][at + 1]
        else:
            name = text.strip()
        if graph.nodes:
            found = graph.places.get(name, -1)
            if not first <= found < end:
                found = next((i for i in range(first, end) if graph.nodes[i] == name), -1)
            if found < 0:
                some = nearest(name, graph.nodes[first:end]) if end - first <= SEVERAL else ""
                return f"the graph has no node {name!r}; {some}".removesuffix("; ")
            return world, found
        try:
            node = int(name)
        except ValueError:
            return f"expected the number of a node, got {name!r}"
        if not 0 <= node < end - first:
            return f"the graph has the nodes 0 to {end - first - 1}, not {node}"
        return world, first + node

    def world(self, graph: Paths | Mapping[str, Paths] | None = None) -> GraphData:
        """The graph, or graphs that were joined to one, read once while the files stay the same.

        Args:
            graph: another one than its own; features are scaled as in that one.

        Raises:
            RequestError: no such file, or one that is no graph.
        """
        files = []
        for split, path in _paths(self.path if graph is None else graph):
            file = self._place(path) if graph is None else sources.find(path)
            files.append((split, path, str(file), file.stat().st_mtime_ns))
        made = _read(tuple(files), self.loops, self.undirected, self.normalize)
        if graph is None or made.scaling.kind != "standard" or self._is_own(files):
            return made
        return replace(made, scaling=self.world().scaling)  # the numbers of the training's nodes

    def _place(self, path: str) -> Path:
        """Where a file of the task's own graph is."""
        note = self.files.get(path)
        if note is None:
            return sources.find(path)
        tried, there = [], [Path(note.get("at", path))]
        with suppress(RequestError):
            there.insert(0, sources.find(path))
        for file in there:
            if file.exists():
                if mark_of(file) == note.get("mark"):
                    return file
                tried.append(str(file))
        said = f"{tried[0]} is another now" if tried else f"it was at {note.get('at')}"
        raise RequestError(
            f"the model reads the neighbors of nodes from the graph {path} that it was trained on: "
            f"{said}; --graph FILE says where a graph is"
        )

    def _is_own(self, files: Sequence[tuple[str, str, str, int]]) -> bool:
        """Whether these files are the graph that was trained on, wherever they are."""
        own = sorted(note.get("mark", "") for note in self.files.values())
        return bool(own) and own == sorted(mark_of(Path(file)) for _, _, file, _ in files)


def _paths(graph: Paths | Mapping[str, Paths]) -> list[tuple[str, str]]:
    """Pairs of a split ("" for all) and a path."""
    told = graph.items() if isinstance(graph, Mapping) else [("", graph)]
    found = []
    for split, paths in told:
        if split and split not in sources.SPLITS:
            hint = nearest(split, sources.SPLITS)
            raise RequestError(f"task.graph has no split {split!r}: {hint}")
        found += [(split, path) for path in ([paths] if isinstance(paths, str) else paths)]
    if not found:
        raise RequestError("task.graph names no file")
    return found


@lru_cache(maxsize=4)
def _read(
    files: tuple[tuple[str, str, str, int], ...],
    loops: bool,
    undirected: bool,
    normalize: bool | str,
) -> GraphData:
    graphs = []
    for split, _, file, _ in files:
        graph = graph_files.read(Path(file))
        if undirected:
            graph = replace(graph, edges=both_ways(graph.rows.pairs()))
        graphs.append(_only(graph, split) if split else graph)
    graph = Graph.join(graphs, [path for _, path, _, _ in files])
    return GraphData(graph, Scaling.of(normalize, graph), loops)


def _only(graph: Graph, split: str) -> Graph:
    """A graph all of whose labelled nodes are of one split."""
    known = graph.labels >= 0 if not graph.several else np.ones(len(graph), bool)
    return replace(graph, splits={split: np.flatnonzero(known)})
