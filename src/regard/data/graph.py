"""Graphs whose nodes have features and labels: read from files, or taken from other libraries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import RequestError

__all__ = ["Graph", "SparseRows", "as_graph", "read"]

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

    def normalized(self) -> "SparseRows":
        """Rows that add up to 1, as papers on citation graphs feed them; empty ones stay."""
        total = np.bincount(self.row, self.value, self.shape[0])
        value = self.value / np.where(total == 0, 1, total)[self.row]
        return SparseRows(self.row, self.column, value.astype(np.float32), self.shape)

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
            the source. An undirected edge is there in both directions.
        features: of the nodes.
        labels: class of each node, -1 where it is not known.
        splits: node ids of train, dev and test.
        names: of the classes; their numbers where the data has none.

    Shapes:
        edges (2, E), labels (N,)
    """

    edges: NDArray[np.int64]
    features: SparseRows
    labels: NDArray[np.int64]
    splits: Mapping[str, NDArray[np.int64]]
    names: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        nodes = len(self)
        if self.edges.ndim != 2 or len(self.edges) != 2:
            raise RequestError(f"a graph expected edges (2, E), came {self.edges.shape}")
        if self.features.shape[0] != nodes:
            raise RequestError(
                f"a graph expected features for each of its {nodes} labels, "
                f"came {self.features.shape[0]} rows"
            )
        ids = [("an edge", self.edges), *((f"split {k}", v) for k, v in self.splits.items())]
        for what, index in ids:
            if index.size and (index.min() < 0 or index.max() >= nodes):
                raise RequestError(
                    f"a graph of {nodes} nodes has {what} with node {int(index.max())}; "
                    f"nodes are 0 to {nodes - 1}"
                )
        for split, index in self.splits.items():
            unknown = index[self.labels[index] < 0]
            if len(unknown):
                raise RequestError(f"node {int(unknown[0])} of split {split} has no label")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return max(int(self.labels.max(initial=-1)) + 1, len(self.names))

    def name(self, label: int) -> str:
        """What a class is called."""
        return self.names[label] if label < len(self.names) else str(label)


def read(path: Path) -> Graph:
    """Read a graph from a `.npz` file.

    Keys: edge_index (2, E); y (N,), -1 where unknown; features as x (N, F) or as x_row, x_col,
    x_val, x_shape; train_idx, val_idx, test_idx or train_mask, val_mask, test_mask; names.

    Raises:
        RequestError: not such a file, a key is missing, or what it says does not fit together.
    """
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            found = {key: file[key] for key in file.files}
    except (OSError, EOFError, ValueError, BadZipFile, AttributeError) as error:
        raise RequestError(f"{path}: expected a .npz file of plain arrays ({error})") from None
    missing = [key for key in KEYS if key not in found]
    if missing:
        raise RequestError(
            f"{path}: expected the arrays {', '.join(KEYS)}; {missing[0]} is missing"
        )
    try:
        return _graph(found)
    except (RequestError, KeyError, ValueError, IndexError) as error:
        raise RequestError(f"{path}: {error}") from None


def as_graph(data: Any) -> Graph:
    """Take a graph from PyTorch Geometric (`Data`) or networkx, by what it has.

    PyG: `x`, `edge_index`, `y`, `train_mask`, `val_mask`, `test_mask`. networkx: node attributes
    `x` (a vector), `y` (a class) and `split` ("train", "dev", "test"); undirected edges count in
    both directions.

    Raises:
        RequestError: it is neither.
    """
    if isinstance(data, Graph):
        return data
    if hasattr(data, "edge_index"):
        names = ("x", "edge_index", "y", *MASKS.values())
        given = {name: getattr(data, name, None) for name in names}
        return _graph(
            {k: np.asarray(torch.as_tensor(v)) for k, v in given.items() if v is not None}
        )
    if hasattr(data, "nodes") and hasattr(data, "edges"):
        nodes = list(data.nodes(data=True))
        ids = {node: i for i, (node, _) in enumerate(nodes)}
        pairs = np.array([(ids[a], ids[b]) for a, b in data.edges()], np.int64).reshape(-1, 2).T
        if not data.is_directed():
            pairs = np.concatenate([pairs, pairs[::-1, pairs[0] != pairs[1]]], 1)
        found: dict[str, Any] = {
            "edge_index": pairs,
            "x": np.stack([np.asarray(kept.get("x", [1.0]), np.float32) for _, kept in nodes]),
            "y": np.array([kept.get("y", -1) for _, kept in nodes]),
        }
        for split, mask in MASKS.items():
            found[mask] = np.array([kept.get("split") == split for _, kept in nodes])
        return _graph(found)
    raise RequestError(
        f"as_graph expected a Graph, PyTorch Geometric's Data or a networkx graph, "
        f"came {type(data).__name__}"
    )


def _graph(found: Mapping[str, NDArray[Any]]) -> Graph:
    """A graph from named arrays."""
    labels = found["y"].astype(np.int64)
    if "x" in found:
        features = SparseRows.of(found["x"])
    elif all(key in found for key in FEATURES):
        row, column, value, shape = (found[key] for key in FEATURES)
        order = np.lexsort((column, row))
        features = SparseRows(
            row[order].astype(np.int64), column[order].astype(np.int64),
            value[order].astype(np.float32), (int(shape[0]), int(shape[1])),
        )  # fmt: skip
    else:
        raise RequestError(f"expected features as x or as {', '.join(FEATURES)}")
    splits = {}
    for split in INDICES:
        if INDICES[split] in found:
            splits[split] = found[INDICES[split]].astype(np.int64)
        elif MASKS[split] in found:
            splits[split] = np.flatnonzero(found[MASKS[split]])
    names = tuple(str(name) for name in found["names"]) if "names" in found else ()
    return Graph(found["edge_index"].astype(np.int64), features, labels, splits, names)
