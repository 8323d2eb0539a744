"""Graphs as two tables, one of edges and one of nodes: CSV, TSV, or Parquet where pyarrow is."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.graphs.graph import INDICES, Graph, SparseRows
from regard.data.text.normal_form import composed, composed_all
from regard.errors import RequestError
from regard.system.extras import install

__all__ = ["read_tables"]

SPLITS = {"train": "train", "dev": "dev", "val": "dev", "valid": "dev", "test": "test", "": ""}


class _Table:
    """Columns by name, all texts in NFC, and where each row stands for errors."""

    def __init__(self, path: Path, columns: Mapping[str, Sequence[str]], lines: Sequence[int]):
        self.columns = {composed(name): composed_all(own) for name, own in columns.items()}
        self.path, self.lines = path, lines

    def __getitem__(self, name: str) -> Sequence[str]:
        if name not in self.columns:
            there = ", ".join(self.columns) or "none"
            raise RequestError(f"{self.path}: expected a column {name!r}; its columns are {there}")
        return self.columns[name]

    def wrong(self, row: int, said: str) -> RequestError:
        """An error about a row."""
        return RequestError(f"{self.path}, line {self.lines[row]}: {said}")


def read_tables(folder: Path) -> Graph:
    """Read `edges.*` and `nodes.*` from a folder.

    Edges: columns `source` and `target`; the target looks at the source, and task.undirected counts
    both directions. Nodes, in the order of their numbers: `id` (any text), `label` (a class; empty
    where unknown), `split` (train, dev, test or empty); every other column is a feature, a number.
    A node without an edge is isolated; an edge that is there twice counts once.

    Raises:
        RequestError: a column is missing, a row is not as long as the heading, an edge names no
            node, or a feature is no number: with file and line.
    """
    edges, nodes = _table(folder, "edges"), _table(folder, "nodes")
    ids: dict[str, int] = {}
    for row, name in enumerate(nodes["id"]):
        if name in ids:
            raise nodes.wrong(row, f"the node {name!r} is there twice")
        ids[name] = row
    pairs = np.zeros((2, len(edges["source"])), np.int64)
    for side, column in enumerate(("source", "target")):
        for row, name in enumerate(edges[column]):
            if name not in ids:
                raise edges.wrong(row, f"the {column} {name!r} is no node of {nodes.path.name}")
            pairs[side, row] = ids[name]
    told = nodes.columns.get("label", [""] * len(ids))
    names = sorted({label for label in told if label}, key=_as_number)
    places = {name: i for i, name in enumerate(names)}
    labels = np.array([places.get(label, -1) for label in told], np.int64)
    features, splits = _features(nodes, len(ids)), _splits(nodes)
    return Graph(pairs, features, labels, splits, tuple(names), nodes=tuple(ids))


def _as_number(text: str) -> tuple[bool, float, str]:
    """Numbers by value before other texts."""
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text


def _features(nodes: _Table, count: int) -> SparseRows:
    names = [name for name in nodes.columns if name not in ("id", "label", "split")]
    if not names:  # a node that is told apart by nothing but where it stands
        return SparseRows.of(np.ones((count, 1), np.float32))
    x = np.zeros((count, len(names)), np.float32)
    for i, name in enumerate(names):
        for row, value in enumerate(nodes[name]):
            try:
                x[row, i] = float(value or 0)
            except ValueError:
                raise nodes.wrong(
                    row, f"the feature {name!r} expected a number, got {value!r}"
                ) from None
            if not np.isfinite(x[row, i]):
                raise nodes.wrong(row, f"the feature {name!r} expected a number, got {value!r}")
    return SparseRows.of(x)


def _splits(nodes: _Table) -> dict[str, NDArray[np.int64]]:
    found: dict[str, list[int]] = {split: [] for split in INDICES}
    for row, name in enumerate(nodes.columns.get("split", ())):
        if name not in SPLITS:
            raise nodes.wrong(row, f"expected a split train, dev, test or none, got {name!r}")
        if name:
            found[SPLITS[name]].append(row)
    return {split: np.array(rows, np.int64) for split, rows in found.items() if rows}


def _table(folder: Path, name: str) -> _Table:
    for kind, reader in _READERS.items():
        path = folder / f"{name}.{kind}"
        if path.is_file():
            return reader(path)
    names = " or ".join(f"{name}.{kind}" for kind in _READERS)
    raise RequestError(f"{folder}: expected {names} beside the other table")


def _csv(path: Path) -> _Table:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        try:
            return _of_rows(path, ((rows.line_num, row) for row in rows if row))
        except (csv.Error, UnicodeDecodeError) as error:
            raise RequestError(f"{path}, line {rows.line_num + 1}: {error}") from None


def _of_rows(path: Path, rows: Iterator[tuple[int, list[str]]]) -> _Table:
    _, head = next(rows, (0, []))
    names = [name.strip() for name in head]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RequestError(f"{path}, line 1: the column {twice!r} is there twice")
    columns: dict[str, list[str]] = {name: [] for name in names}
    lines = []
    for line, row in rows:
        if len(row) != len(names):
            raise RequestError(
                f"{path}, line {line}: expected {len(names)} columns as in the heading, "
                f"got {len(row)}"
            )
        lines.append(line)
        for name, value in zip(names, row, strict=True):
            columns[name].append(value.strip())
    return _Table(path, columns, lines)


def _parquet(path: Path) -> _Table:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError:
        raise RequestError(
            f"{path}: reading Parquet needs pyarrow ({install('tables')}); or write it as .csv"
        ) from None
    try:
        table = parquet.read_table(path)
    except ArrowInvalid as error:
        raise RequestError(f"{path}: expected a Parquet file ({error})") from None
    columns = {
        name: ["" if value is None else str(value) for value in table[name].to_pylist()]
        for name in table.column_names
    }
    return _Table(path, columns, range(1, table.num_rows + 1))


_READERS: dict[str, Callable[[Path], _Table]] = {"csv": _csv, "tsv": _csv, "parquet": _parquet}
