"""Which format a file has, by its name."""

from collections.abc import Mapping
from pathlib import Path

__all__ = ["format_of", "unpacked_name"]


_ENDINGS = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "squad",
    ".trees": "trees",
    ".mrg": "trees",
    ".conll": "conll",
    ".conllu": "conllu",
    ".pubtator": "pubtator-tags",
    ".npz": "npz",
    ".tar": "tar",
}


def format_of(path: str | Path | Mapping[str, str | Path]) -> str:
    """The format that a file's name tells: `.tsv`, `.jsonl` (or `.gz`, `.zst` of it); else Moses.

    A folder is one of pictures in folders that are named by their labels; `.pubtator.txt` is as
    `.pubtator`.
    """
    if isinstance(path, Mapping):
        return "moses"
    name = unpacked_name(path)
    if name != "-" and Path(name).suffix not in _ENDINGS and Path(path).is_dir():
        return "folders"
    if name == "-":
        return "tsv"
    endings = [ending.lower() for ending in Path(name).suffixes]
    told = _ENDINGS.get(".pubtator" if ".pubtator" in endings[-2:] else "".join(endings[-1:]))
    return told or ("folders" if Path(name).is_dir() else "moses")


def unpacked_name(path: str | Path) -> str:
    """A file's name without the ending that says how it is packed: `.gz` or `.zst`."""
    return str(path).removesuffix(".gz").removesuffix(".zst")
