"""Graphs whose nodes have features and labels, joined to one or taken from other libraries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.graphs.checks import CLASSES, check_features, whole
from regard.data.graphs.neighbors import Compressed
from regard.errors import RequestError
from regard.layers.sparse import CSRMatrix

__all__ = ["Graph", "SparseRows", "graph_of_arrays"]

BETWEEN = ", "
"""Between the classes of a node that has several."""
KEYS = ("edge_index", "y")
FEATURES = ("x_row", "x_col", "x_val", "x_shape")
INDICES = {"train": "train_idx", "dev": "val_idx", "test": "test_idx"}
MASKS = {"train": "train_mask", "dev": "val_mask", "test": "test_mask"}


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Mostly empty feature rows, as (row, column, value) sorted by row.

    Shapes:
        row, column, value (nonzeros,); shape (N, F)
    """

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    value: NDArray[np.float32]
    shape: tuple[int, int]

    @classmethod
    def of(cls, dense: NDArray[Any]) -> "SparseRows":
        """The nonzeros of a dense matrix."""
        row, column = np.nonzero(dense)
        return cls(row, column, dense[row, column].astype(np.float32), (len(dense), dense.shape[1]))

    @classmethod
    def sorted(
        cls, row: NDArray[Any], column: NDArray[Any], value: NDArray[Any], shape: NDArray[Any]
    ) -> "SparseRows":
        """From nonzeros in any order."""
        row, column = whole(row, "x_row"), whole(column, "x_col")
        if not len(row) == len(column) == len(value) or len(shape) != 2:
            raise RequestError(
                "expected x_row, x_col and x_val of one length and x_shape of two numbers, got "
                f"{len(row)}, {len(column)}, {len(value)} and {len(shape)}"
            )
        order = np.lexsort((column, row))
        value = value[order].astype(np.float32)
        return cls(row[order], column[order], value, (int(shape[0]), int(shape[1])))

    def __len__(self) -> int:
        return self.shape[0]

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each row begins, and the end."""
        return np.searchsorted(self.row, np.arange(self.shape[0] + 1))

    def normalized(self) -> "SparseRows":
        """Rows whose absolute values add up to 1, as papers on citation graphs feed counts.

        Empty ones stay.
        """
        total = np.bincount(self.row, np.abs(self.value), self.shape[0])
        value = self.value / np.where(total == 0, 1, total)[self.row]
        return SparseRows(self.row, self.column, value.astype(np.float32), self.shape)

    def take(self, rows: NDArray[np.int64]) -> CSRMatrix:
        """Some rows, as a layer reads them."""
        some = self.some(rows)
        r, c, v = (torch.from_numpy(x) for x in (some.row, some.column, some.value))
        return CSRMatrix(r, c, v, some.shape)

    def some(self, rows: NDArray[np.int64]) -> "SparseRows":
        """Some rows, in that order."""
        counts = self.offsets[rows + 1] - self.offsets[rows]
        row = np.repeat(np.arange(len(rows)), counts)
        ends = np.cumsum(counts)
        at = self.offsets[rows][row] + np.arange(len(row)) - (ends - counts)[row]
        return SparseRows(row, self.column[at], self.value[at], (len(rows), self.shape[1]))

    def dense(self) -> NDArray[np.float32]:
        """All of it; values of one place add up."""
        found = np.zeros(self.shape, np.float32)
        np.add.at(found, (self.row, self.column), self.value)
        return found


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes that look at their neighbors.

    Args:
        edges: source above destination, as PyTorch Geometric has them: the destination looks at
            the source. An undirected edge is there in both directions; one that is there twice
            counts once. Or compressed already.
        features: of the nodes; a dense array may be mapped from a file.
        labels: class of each node, -1 where it is not known; or for each class whether the node is
            of it (multi-label).
        splits: node ids of train, dev and test.
        names: of the classes; their numbers where the data has none.
        starts: where the graphs begin that this one was joined of.
        titles: what those are called.
        nodes: what the nodes are called; their numbers where the data has no names.

    Shapes:
        edges (2, E), features (N, F), labels (N,) or (N, C)
    """

    edges: NDArray[np.int64] | Compressed
    features: SparseRows | NDArray[np.floating]
    labels: NDArray[np.integer]
    splits: Mapping[str, NDArray[np.int64]]
    names: Sequence[str] = field(default=())
    starts: Sequence[int] = (0,)
    titles: Sequence[str] = ("",)
    nodes: Sequence[str] = ()

    def __post_init__(self) -> None:
        nodes = len(self)
        check_features(self.features)
        if self.labels.size and self.classes > CLASSES:
            raise RequestError(
                f"a graph expected classes from 0 to {CLASSES - 1:,}, got {int(self.labels.max())}"
            )
        if not isinstance(self.edges, Compressed) and not (
            self.edges.ndim == 2 and len(self.edges) == 2
        ):
            raise RequestError(f"a graph expected edges (2, E), got {self.edges.shape}")
        if len(self.features) != nodes:
            raise RequestError(
                f"a graph expected features for each of its {nodes} labels, "
                f"got {len(self.features)} rows"
            )
        ids = [(f"split {split}", index) for split, index in self.splits.items()]
        if isinstance(self.edges, Compressed):
            if len(self.edges) != nodes:
                raise RequestError(f"a graph of {nodes} nodes has edges of {len(self.edges)}")
            self.edges.check()
        else:
            ids.insert(0, ("an edge", self.edges))
        for what, index in ids:
            if index.size and (index.min() < 0 or index.max() >= nodes):
                wrong = int(index.min()) if index.min() < 0 else int(index.max())
                raise RequestError(
                    f"a graph of {nodes} nodes has {what} with node {wrong}; "
                    f"nodes are 0 to {nodes - 1}"
                )
        for split, index in self.splits.items():
            unknown = index[self.labels[index] < 0] if self.labels.ndim == 1 else index[:0]
            if len(unknown):
                raise RequestError(f"node {int(unknown[0])} of split {split} has no label")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def several(self) -> bool:
        """Whether a node may be of several classes."""
        return self.labels.ndim == 2

    @property
    def classes(self) -> int:
        """How many classes there are."""
        if self.several:
            return int(self.labels.shape[1])
        return max(int(self.labels.max(initial=-1)) + 1, len(self.names))

    @cached_property
    def rows(self) -> Compressed:
        """The neighbors of each node."""
        if isinstance(self.edges, Compressed):
            return self.edges
        return Compressed.of(self.edges, len(self))

    def name(self, label: int) -> str:
        """What a class is called."""
        return self.names[label] if label < len(self.names) else str(label)

    def called(self, node: int) -> str:
        """The name of a node."""
        return self.nodes[node] if self.nodes else str(node)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The number of each node by its name."""
        return {name: node for node, name in reversed(list(enumerate(self.nodes)))}

    def told(self, node: int) -> str:
        """The right classes of a node, as text."""
        label = self.labels[node]
        chosen = np.flatnonzero(label).tolist() if self.several else [int(label)]
        return BETWEEN.join(self.name(one) for one in chosen if one >= 0)

    @classmethod
    def join(cls, graphs: Sequence["Graph"], titles: Sequence[str] = ()) -> "Graph":
        """Several graphs as one whose nodes lie behind each other; no edge joins two of them.

        Raises:
            RequestError: features or labels of unequal sizes.
        """
        if len(graphs) == 1:
            return graphs[0]
        widths = {graph.features.shape[1] for graph in graphs}
        kinds = {graph.labels.shape[1:] for graph in graphs}
        if len(widths) > 1 or len(kinds) > 1:
            said = ", ".join(
                f"{t or i}: {g.features.shape[1]} features, labels {g.labels.shape}"
                for i, (t, g) in enumerate(zip(titles or [""] * len(graphs), graphs, strict=True))
            )
            raise RequestError(f"graphs are joined when features and labels are alike, got {said}")
        starts = np.cumsum([0, *(len(graph) for graph in graphs[:-1])]).tolist()
        placed = list(zip(starts, graphs, strict=True))
        parts = [
            graph.features
            if isinstance(graph.features, SparseRows)
            else SparseRows.of(graph.features)
            for graph in graphs
        ]
        features = SparseRows(
            np.concatenate([part.row + s for s, part in zip(starts, parts, strict=True)]),
            np.concatenate([part.column for part in parts]),
            np.concatenate([part.value for part in parts]),
            (sum(len(graph) for graph in graphs), widths.pop()),
        )
        splits = {
            split: np.concatenate([g.splits[split] + s for s, g in placed if split in g.splits])
            for split in INDICES
            if any(split in graph.splits for graph in graphs)
        }
        return cls(
            np.concatenate([graph.rows.pairs() + s for s, graph in placed], 1),
            features,
            np.concatenate([graph.labels for graph in graphs]),
            splits,
            max((graph.names for graph in graphs), key=len),
            starts,
            titles or [""] * len(graphs),
            [g.called(i) for g in graphs for i in range(len(g))]
            if any(graph.nodes for graph in graphs)
            else (),
        )

    @classmethod
    def of(cls, data: Any) -> "Graph":
        """Take a graph from PyTorch Geometric (`Data`) or networkx, by what it has.

        PyG: `x`, `edge_index`, `y`, `train_mask`, `val_mask`, `test_mask`. networkx: node
        attributes `x` (a vector), `y` (a class) and `split` ("train", "dev", "test"); undirected
        edges count in both directions.

        Raises:
            RequestError: it is neither.

        Example:
            >>> from types import SimpleNamespace as Data
            >>> x, y = torch.eye(2), torch.tensor([0, 1])
            >>> len(Graph.of(Data(x=x, y=y, edge_index=torch.tensor([[0], [1]]))))
            2
        """
        if isinstance(data, cls):
            return data
        if hasattr(data, "edge_index"):
            names = ("x", "edge_index", "y", *MASKS.values())
            given = {name: getattr(data, name, None) for name in names}
            return graph_of_arrays(
                {k: torch.as_tensor(v).cpu().numpy() for k, v in given.items() if v is not None}
            )
        if hasattr(data, "nodes") and hasattr(data, "edges") and hasattr(data, "is_directed"):
            return graph_of_arrays(_of_networkx(data))
        raise RequestError(
            "Graph.of expected a Graph, PyTorch Geometric's Data or a networkx graph, "
            f"got {type(data).__name__}"
        )


def _of_networkx(data: Any) -> dict[str, Any]:
    nodes = list(data.nodes(data=True))
    ids = {node: i for i, (node, _) in enumerate(nodes)}
    pairs = np.array([(ids[a], ids[b]) for a, b in data.edges()], np.int64).reshape(-1, 2).T
    if not data.is_directed():
        pairs = both_ways(pairs)
    vectors = [np.atleast_1d(np.asarray(kept.get("x", 1.0), np.float32)) for _, kept in nodes]
    sizes = {len(vector) for vector in vectors}
    if len(sizes) > 1:
        raise RequestError(f"nodes expected an x of one size, got sizes {sorted(sizes)}")
    found: dict[str, Any] = {
        "edge_index": pairs,
        "x": np.stack(vectors) if vectors else np.zeros((0, 1), np.float32),
        "y": np.array([kept.get("y", -1) for _, kept in nodes], np.int64),
    }
    for split, mask in MASKS.items():
        found[mask] = np.array([kept.get("split") == split for _, kept in nodes], bool)
    return found


def both_ways(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Undirected edges as two directed ones; a loop stays one."""
    return np.concatenate([pairs, pairs[::-1, pairs[0] != pairs[1]]], 1)


def graph_of_arrays(found: Mapping[str, NDArray[Any]]) -> Graph:
    """A graph from named arrays: those of a `.npz` file, or of PyTorch Geometric.

    Raises:
        RequestError: an array is missing or of another size.
    """
    missing = [key for key in KEYS if key not in found]
    if missing:
        raise RequestError(f"expected the arrays {', '.join(KEYS)}; {missing[0]} is missing")
    labels = whole(found["y"], "y")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim not in (1, 2):
        raise RequestError(f"expected y (N,) or (N, C), got {labels.shape}")
    if "x" in found:
        if found["x"].ndim != 2:
            raise RequestError(f"expected features x (N, F), got {found['x'].shape}")
        features = SparseRows.of(found["x"])
    elif all(key in found for key in FEATURES):
        features = SparseRows.sorted(*(found[key] for key in FEATURES))
    else:
        raise RequestError(f"expected features as x or as {', '.join(FEATURES)}")
    splits = {}
    for split in INDICES:
        if INDICES[split] in found:
            splits[split] = whole(found[INDICES[split]], INDICES[split])
        elif MASKS[split] in found:
            splits[split] = np.flatnonzero(found[MASKS[split]])
    names = tuple(str(name) for name in found["names"]) if "names" in found else ()
    kind = np.uint8 if labels.ndim == 2 else np.int64
    return Graph(
        whole(found["edge_index"], "edge_index"), features, labels.astype(kind), splits, names
    )
