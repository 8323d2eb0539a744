"""Graphs in files: `.npz`, folders of mapped arrays, lists of edges, and the format of PPI."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.files.npz import plain_arrays
from regard.data.files.packing import regular
from regard.data.graphs.graph import INDICES, Graph, SparseRows, both_ways, graph_of_arrays
from regard.data.graphs.neighbors import Compressed
from regard.errors import RequestError
from regard.system.plain_json import read_json

__all__ = ["is_graph", "mark_of", "read", "write_folder"]


def read(path: Path) -> Graph:
    """Read a graph; its form is told by the name.

    - `.npz`: arrays edge_index (2, E); y (N,), -1 where unknown, or (N, C) of 0 and 1; features as
      x (N, F) or as x_row, x_col, x_val, x_shape; train_idx, val_idx, test_idx or train_mask,
      val_mask, test_mask; names.
    - a folder with `offsets.npy`: what `write_folder` writes; arrays stay in their files.
    - a folder with `nodes.csv` (.tsv, .parquet) and `edges.csv`: tables; see `graph_tables`.
    - a folder with `train_graph.json`: PPI as it is distributed with GraphSAGE's successors.

    Raises:
        RequestError: not such a file, something is missing, or what it says does not fit together.
    """
    try:
        if path.is_dir():
            return _folder(path)
        if path.suffix == ".npz":
            return graph_of_arrays(_arrays(path))
    except KeyError as error:
        raise RequestError(f"{path}: {error} is missing") from None
    except Exception as error:  # of damaged arrays NumPy raises nearly anything
        said = " ".join(str(error).split()) or type(error).__name__
        raise RequestError(said if said.startswith(str(path)) else f"{path}: {said}") from None
    raise RequestError(f"{path}: expected a graph as a .npz file or as a folder ({_FOLDERS_SAID})")


def is_graph(path: Path) -> bool:
    """Whether a file or folder holds a graph, told by the names that are in it."""
    if path.is_dir():
        return any((path / name).is_file() for names in _FOLDERS for name in names)
    if path.suffix != ".npz" or not path.is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return "edge_index.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def mark_of(path: Path) -> str:
    """What the contents of a graph's file, or of the files of its folder, add up to.

    Of a file of more than 64 MB its size, beginning and end count.
    """
    total = hashlib.sha256()
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file():
            total.update(_mark(file, file.stat().st_mtime_ns, file.stat().st_size, path.is_dir()))
    return total.hexdigest()


@lru_cache(maxsize=64)
def _mark(file: Path, changed: int, size: int, named: bool) -> bytes:
    total = hashlib.sha256((file.name if named else "").encode() + size.to_bytes(8))
    with file.open("rb") as content:
        total.update(content.read(_WHOLE))
        if size > _WHOLE:
            content.seek(-_WHOLE, 2)
            total.update(content.read())
    return total.digest()


_WHOLE = 1 << 26


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        return plain_arrays(regular(path))
    except ValueError as error:
        raise RequestError(f"expected a .npz file of plain arrays ({error})") from None


def _folder(path: Path) -> Graph:
    for names, reader in _FOLDERS.items():
        if any((path / name).is_file() for name in names):
            return reader(path)
    raise RequestError(f"expected a graph's files ({_FOLDERS_SAID})")


# -- mapped arrays


def write_folder(graph: Graph, path: Path) -> None:
    """Write a graph as arrays that are read without taking memory: one `.npy` file each."""
    path.mkdir(parents=True, exist_ok=True)
    rows = graph.rows
    arrays: dict[str, Any] = {"offsets": rows.offsets, "sources": rows.sources, "y": graph.labels}
    if isinstance(graph.features, SparseRows):
        arrays |= {
            "x_row": graph.features.row,
            "x_col": graph.features.column,
            "x_val": graph.features.value,
        }
    else:
        arrays["x"] = graph.features
    arrays |= {INDICES[split]: index for split, index in graph.splits.items()}
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    about = {
        "nodes": len(graph),
        "features": graph.features.shape[1],
        "looped": rows.looped,
        "names": list(graph.names),
        "ids": list(graph.nodes),
    }
    (path / "graph.json").write_text(json.dumps(about), encoding="utf-8")


def _mapped(path: Path) -> Graph:
    about = read_json((path / "graph.json").read_text(encoding="utf-8"))

    def array(name: str) -> Any:
        return np.load(path / f"{name}.npy", mmap_mode="r", allow_pickle=False)

    features: Any
    if (path / "x.npy").is_file():
        features = array("x")
    else:
        shape = (int(about["nodes"]), int(about["features"]))
        features = SparseRows(array("x_row"), array("x_col"), array("x_val"), shape)
    splits = {k: np.asarray(array(v)) for k, v in INDICES.items() if (path / f"{v}.npy").is_file()}
    rows = Compressed(array("offsets"), array("sources"), bool(about["looped"]))
    names, ids = tuple(about["names"]), tuple(about.get("ids", ()))
    if not all(isinstance(name, str) for name in (*names, *ids)):
        raise RequestError("graph.json: expected names and ids that are texts")
    return Graph(rows, features, array("y"), splits, names, nodes=ids)


# -- PPI


def _ppi(path: Path) -> Graph:
    """`{train,valid,test}_graph.json` (node-link), `_feats.npy`, `_labels.npy`, `_graph_id.npy`."""
    graphs, titles = [], []
    for split, name in (("train", "train"), ("dev", "valid"), ("test", "test")):
        file = path / f"{name}_graph.json"
        if not file.is_file():
            continue
        told = read_json(file.read_text(encoding="utf-8"))
        ends = [(link["source"], link["target"]) for link in told["links"]]
        pairs = np.array(ends, np.int64).reshape(-1, 2).T
        pairs = pairs if told.get("directed") else both_ways(pairs)
        x, y, of = (
            np.load(path / f"{name}_{what}.npy", mmap_mode="r", allow_pickle=False)
            for what in ("feats", "labels", "graph_id")
        )
        for one in np.unique(of):
            nodes = np.flatnonzero(of == one)
            place = np.full(len(of), -1)
            place[nodes] = np.arange(len(nodes))
            inside = place[pairs][:, (place[pairs] >= 0).all(0)]
            graphs.append(
                Graph(
                    inside,
                    SparseRows.of(x[nodes]),
                    y[nodes].astype(np.uint8),
                    {split: np.arange(len(nodes))},
                )
            )
            titles.append(f"{name}-{one}")
    return Graph.join(graphs, titles)


def _tables(path: Path) -> Graph:
    from regard.data.graphs.tables import read_tables

    return read_tables(path)


TABLES = tuple(f"edges.{kind}" for kind in ("csv", "tsv", "parquet"))
_FOLDERS: dict[tuple[str, ...], Callable[[Path], Graph]] = {
    ("offsets.npy",): _mapped,
    TABLES: _tables,
    ("train_graph.json", "test_graph.json"): _ppi,
}
_FOLDERS_SAID = "with " + ", ".join(name for names in _FOLDERS for name in names)
