"""The formats of data files: one table for training, predicting, bulk files and every command."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.data.files.packing import PACKED
from regard.data.files.row import Column, Row
from regard.data.problems import Problems
from regard.data.text.normal_form import composed
from regard.errors import RequestError, nearest

__all__ = [
    "FORMATS",
    "FileFormat",
    "columns_of",
    "format_of",
    "packing_of",
    "read",
    "refuse_unread",
    "unpacked_name",
]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of data files.

    Args:
        name: what a recipe names as `data.format`.
        endings: of file names, without how they are packed; none: it has to be named.
        module: of `regard.data.formats`, loaded at first use. It has `read`; `COLUMNS` where every
            file has the same columns; `edits` where predicted tags can be written back.
        reader: the function of the module that reads.
        lists: whether a cell may be a list.
        dialect: whether a file has a delimiter and quotes, which are detected or given.
        lines: whether `regard predict -o` answers such files row by row.
    """

    name: str
    endings: tuple[str, ...]
    module: str
    reader: str = "read"
    lists: bool = False
    dialect: bool = False
    lines: bool = False

    def load(self) -> ModuleType:
        """Its module."""
        return import_module(f"regard.data.formats.{self.module}")


_ROWS = (
    FileFormat("tsv", (".tsv", ".txt"), "tsv", lines=True),
    FileFormat("csv", (".csv",), "csv", dialect=True, lines=True),
    FileFormat("jsonl", (".jsonl", ".ndjson"), "jsonl", lists=True, lines=True),
    FileFormat("json", (".json",), "json", lists=True),
    FileFormat("moses", (), "moses"),
    FileFormat("cbt", (), "cbt"),
    FileFormat("squad", (), "squad"),
    FileFormat("semeval", (), "semeval"),
    FileFormat("babi", (), "babi"),
    FileFormat("trees", (".trees", ".mrg"), "trees"),
    FileFormat("conll", (".conll",), "conll"),
    FileFormat("conllu", (".conllu",), "conllu"),
    FileFormat("conll2005", (), "conll2005"),
    FileFormat("pubtator-tags", (".pubtator",), "pubtator_tags"),
    FileFormat("text-pairs", (), "text_pairs"),
    FileFormat("npz", (".npz",), "npz"),
    FileFormat("folders", (), "image_folders"),
    FileFormat("tar", (".tar",), "image_folders", reader="read_tar"),
)

FORMATS: Mapping[str, FileFormat] = {one.name: one for one in _ROWS}
"""What a recipe may name as `data.format`."""

_ENDINGS = {ending: one.name for one in _ROWS for ending in one.endings}

_UNREAD = {
    ".xlsx": "save the sheet as CSV",
    ".xls": "save the sheet as CSV",
    ".ods": "save the sheet as CSV",
    ".parquet": "write it as CSV or JSON lines",
    ".arrow": "write it as CSV or JSON lines",
    ".feather": "write it as CSV or JSON lines",
    ".pkl": "write it as CSV or JSON lines",
    ".bz2": "pack it as .gz or .zst",
    ".xz": "pack it as .gz or .zst",
    ".zip": "unpack it, or pack it as .gz or .zst",
    ".tgz": "unpack it",
}
"""Files of data that nothing here reads, and what to do."""


def format_of(
    path: str | Path | Mapping[str, str | Path], endings: Mapping[str, str] | None = None
) -> str:
    """The format that a file's name tells, packed or not; Moses where it tells none.

    A folder is one of pictures in folders that are named by their labels; `.pubtator.txt` is as
    `.pubtator`. Standard input is TSV.

    Args:
        endings: those that mean another format to the caller, as `{".txt": "cbt"}`.

    Example:
        >>> format_of("a.jsonl.zst"), format_of("a.csv"), format_of("a.txt", {".txt": "cbt"})
        ('jsonl', 'csv', 'cbt')
    """
    if isinstance(path, Mapping):
        return "moses"
    name = unpacked_name(path)
    if name == "-":
        return "tsv"
    known = {**_ENDINGS, **(endings or {})}
    if Path(name).suffix not in known and Path(path).is_dir():
        return "folders"
    several = [ending.lower() for ending in Path(name).suffixes]
    last = ".pubtator" if ".pubtator" in several[-2:] else "".join(several[-1:])
    return known.get(last, "moses")


def refuse_unread(path: str | Path, why: str = "") -> None:
    """Refuse a file of data that nothing reads, as `.xlsx`.

    Args:
        why: stands before what to do.

    Raises:
        RequestError: with what to do.
    """
    ending = Path(str(path)).suffix.lower()
    if ending in _UNREAD:
        why = why or f"{ending} files are not read; "
        raise RequestError(f"{path}: {why}expected another format: {_UNREAD[ending]}")


def packing_of(path: str | Path) -> str:
    """How a file's name says that it is packed: `.gz`, `.zst`, or "".

    Example:
        >>> packing_of("a.tsv.gz"), packing_of("a.tsv")
        ('.gz', '')
    """
    return next((ending for ending in PACKED if str(path).lower().endswith(ending)), "")


def unpacked_name(path: str | Path) -> str:
    """A file's name without the ending that says how it is packed: `.gz` or `.zst`."""
    return str(path)[: len(str(path)) - len(packing_of(path))]


def columns_of(format: str) -> tuple[str, ...]:
    """The columns of a format that has the same in every file; none of another."""
    found: tuple[str, ...] = ()
    if format in FORMATS:
        found = tuple(getattr(FORMATS[format].load(), "COLUMNS", ()))
    return found


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    format: str | None = None,
    header: bool = True,
    problems: Problems | None = None,
    lists: Collection[str] = (),
    dialect: Mapping[str, str] | None = None,
) -> Iterator[Row]:
    """Read rows of named fields from a file, line by line.

    Args:
        path: a file, plain or packed; '-' is standard input; for Moses files the common part of two
            names (`train` for `train.de` and `train.en`) or a file for each field.
        columns: for each field the name of its column, or its number from 1. For Moses files with a
            common name: the ending of its file.
        format: a key of `FORMATS`; told from the file's name where not given.
        header: whether the first line of a TSV or CSV file names its columns.
        problems: takes what is wrong with single lines; those lines are left out.
        lists: the fields that take lists.
        dialect: `delimiter`, `quote` and `escape` of CSV files; detected where not given.

    Raises:
        RequestError: no such file or format, a column that is not there, Moses files of unequal
            length, or a packed file that ends early.
    """
    chosen = format or format_of(path)
    if chosen not in FORMATS:
        raise RequestError(f"unknown data format {chosen!r}: {nearest(chosen, FORMATS)}")
    if not format and chosen == "moses" and not isinstance(path, Mapping) and Path(path).is_file():
        refuse_unread(path)
    one, more = FORMATS[chosen], dict[str, Any]()
    if chosen != "moses":  # whose columns are endings of files
        columns = {f: composed(c) if isinstance(c, str) else c for f, c in columns.items()}
    if one.lists:
        more["lists"] = lists
    if one.dialect:
        more["dialect"] = dialect
    rows: Iterator[Row] = getattr(one.load(), one.reader)(
        path, columns, header=header, problems=Problems() if problems is None else problems, **more
    )
    return rows
