"""What `regard data` finds in files: rows, lengths, duplicates, leaks, problems."""

import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import Problems
from regard.data.files.delimited import TSV, dialect_of, records
from regard.data.files.lines import Line, lines
from regard.data.files.packing import regular
from regard.data.files.records import objects
from regard.data.files.registry import FORMATS, columns_of, format_of, unpacked_name
from regard.data.formats.conll import names as conll_names
from regard.data.formats.json import objects as array_objects
from regard.data.formats.npz import names as npz_names
from regard.data.formats.text_pairs import SUMMARY
from regard.data.graphs.files import is_graph, read
from regard.data.graphs.graph import Graph
from regard.data.passages import stories
from regard.data.sources import SPLITS, find, splits
from regard.datasets.leakage import _leaks
from regard.datasets.statistics import Split
from regard.datasets.unseen import unseen_words
from regard.errors import RequestError

__all__ = ["column_names", "inspect"]

FIRST = 50
"""Lines that tell what a file has."""


ORDER = ("train", "train-10k", "dev", "valid", "val", "test")
"""Of the splits of a bAbI task."""


def inspect(
    path: str,
    columns: Mapping[str, str | int] | None = None,
    format: str | None = None,
    header: bool = True,
) -> dict[str, Any]:
    """Read a file, or all splits of a folder, and count; of a graph its nodes, edges and classes.

    Args:
        path: as in a recipe's `data.path`.
        columns: field -> column; every column under its own name where not given.
        format: a key of `FORMATS`; told from the name where not given.
        header: whether a TSV file has a heading line.

    Raises:
        RequestError: nothing to read; or no heading, of files that never have one.
    """
    place = find(path)
    if format is None and is_graph(place):
        return {"path": str(place), "graph": _graph_summary(read(place))}
    files, format = _files(place, format)
    read_splits = {}
    formats = {format or _told_inside(file) or format_of(file) for file in files.values()}
    if not header and not formats & {"tsv", "csv"}:
        said = ", ".join(formats)
        raise RequestError(f"--no-header: it is for TSV and CSV files; {place} is {said}")
    for name, file in files.items():
        told = format or _told_inside(file)
        chosen = columns or column_names(file, told, header)
        read_splits[name] = Split(file, chosen).read(chosen, told, header)
    return {
        "path": str(place),
        "splits": {name: split.summary() for name, split in read_splits.items()},
        "leaks": _leaks(read_splits),
        "unseen": unseen_words(read_splits),
    }


def _graph_summary(graph: Graph) -> dict[str, Any]:
    """Sizes of a graph, and how many nodes of each split and class it has."""
    labels = graph.labels
    if graph.several:
        counts = [int(own) for own in np.asarray(labels).sum(0)]
    else:
        counts = [int(own) for own in np.bincount(labels[labels >= 0], minlength=graph.classes)]
    return {
        "nodes": len(graph),
        "edges": len(graph.rows.sources),
        "features": int(graph.features.shape[1]),
        "classes": {graph.name(k): count for k, count in enumerate(counts)},
        "unlabeled": 0 if graph.several else int((np.asarray(labels) < 0).sum()),
        "splits": {name: len(index) for name, index in graph.splits.items()},
    }


def _files(place: Path, format: str | None) -> tuple[dict[str, Path], str | None]:
    """The file of each split, and the format of all of them where the folder tells it."""
    if not place.is_dir():
        babi = stories.NAME.fullmatch(place.name) is not None
        return {place.name: place}, format or ("babi" if babi else None)
    told = [m for f in place.iterdir() if (m := stories.NAME.fullmatch(f.name)) is not None]
    if format in (None, "babi") and told:  # a file for each task and split
        told.sort(key=lambda m: (int(m[1][2:]), ORDER.index(m[2])))
        return {f"{m[1]} {m[2]}": place / m[0] for m in told}, "babi"
    named = [name for names in SPLITS.values() for name in names]
    paired = {n: place / n for n in named if any((place / n).glob(f"*{SUMMARY}"))}
    paired = paired or ({place.name: place} if any(place.glob(f"*{SUMMARY}")) else {})
    if format in (None, "text-pairs") and paired:
        return paired, "text-pairs"
    return splits(place), format


def column_names(file: Path, format: str | None, header: bool) -> dict[str, str | int]:
    """Every column of a file, by the name it has there.

    Raises:
        RequestError: standard input, which cannot be read twice; or nothing is there.
    """
    if str(file) == "-":
        raise RequestError(
            "expected --columns for standard input, e.g. --columns source=de,target=en"
        )
    chosen = format or format_of(file)
    if own := columns_of(chosen):
        return {name: name for name in own}
    if chosen == "moses":
        beside = sorted(file.parent.glob(f"{file.name}.*"))
        if not beside:
            known = ", ".join(name for name in FORMATS if name != "moses")
            raise RequestError(f"{regular(file)}: its name tells no format; say --format ({known})")
        return {(end := unpacked_name(f.name).rpartition(".")[2]): end for f in beside}
    if chosen in ("jsonl", "json"):
        whole = (objects if chosen == "jsonl" else array_objects)(file, Problems(shown=0))
        found = [value for _, value in islice(whole, FIRST)]
        if not found:
            raise RequestError(f"{file}: expected a JSON object a line, there is none")
        return {
            name: name
            for name, value in found[0].items()
            if isinstance(value, str) or all(_is_cell(one.get(name)) for one in found)
        }
    if chosen == "npz":
        return npz_names(file)
    if chosen == "conll":
        return {str(name): name for name in conll_names(file)}
    dialect = dialect_of(file) if chosen == "csv" else TSV
    given = (Line(text) for _, text in lines(file, Problems()) if text)
    first = next(records(given, dialect), None)
    if first is None:
        raise RequestError(f"{file}: expected at least one line, it has none")
    cells = first.cells
    return {c: c for c in cells} if header else {str(i + 1): i + 1 for i in range(len(cells))}


def _is_cell(value: Any) -> bool:
    """Whether a value of JSON is a text, a number, or a list of them."""
    values = value if isinstance(value, list) else [value]
    return all(isinstance(v, (str, int, float)) and not isinstance(v, bool) for v in values)


def _told_inside(file: Path) -> str | None:
    """The format of a file of columns that has brackets of roles, else None: its name tells."""
    if str(file) == "-" or format_of(file) != "conll":
        return None
    first = islice((text for _, text in lines(file, Problems(shown=0)) if text), FIRST)
    roles = (re.search(r"[ \t]\([^\s()*]+\*\)?([ \t]|$)", text) for text in first)
    return "conll2005" if any(roles) else None
