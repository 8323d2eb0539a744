"""Which files are read, and what becomes of each."""

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.files import packing
from regard.errors import RequestError
from regard.inference.records import FORMS, TEXT

__all__ = ["BAD", "Shard", "form_at", "found"]

BAD = ".bad.jsonl"
"""What is added to a shard's name for the file of its bad lines."""

NONE = {
    ".json": "an object a line, .jsonl", ".csv": "columns divided by tabs, .tsv",
    ".parquet": "lines", ".arrow": "lines", ".bz2": ".gz or .zst", ".xz": ".gz or .zst",
    ".zip": ".gz or .zst", ".tar": "lines", ".tgz": "lines",
}  # fmt: skip
"""Files that are no shards of lines, and what was expected."""


@dataclass(frozen=True)
class Shard:
    """One file of lines, and where its output goes.

    Args:
        form: `text`, `jsonl` or `tsv`.
        suffix: `.gz` or `.zst` where it is compressed, and so is its output.
    """

    source: Path
    out: Path
    form: str
    suffix: str

    @property
    def name(self) -> str:
        """Its own, and its output's."""
        return self.source.name

    @property
    def bad(self) -> Path:
        """Where its bad lines are told of."""
        return self.out.with_name(self.name + BAD)

    def stamp(self) -> dict[str, int]:
        """What tells that it has not changed.

        Raises:
            Unreadable: it is not there any more.
        """
        try:
            found = self.source.stat()
        except OSError as error:
            raise packing.unreadable(error) from None
        return {"size": found.st_size, "mtime_ns": found.st_mtime_ns}

    def plain(self) -> dict[str, str]:
        """As JSON can hold it; `Shard.of` reads it."""
        own = {"form": self.form, "suffix": self.suffix}
        return {"source": str(self.source), "out": str(self.out), **own}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Shard":
        """The shard that was written as these values."""
        return cls(Path(plain["source"]), Path(plain["out"]), plain["form"], plain["suffix"])


def found(pattern: str, out: Path) -> list[Shard]:
    """The shards of a folder, of a pattern as `corpus/*.jsonl.gz`, or one file; sorted by name.

    Raises:
        RequestError: there is none; one is no file of lines; two have one name; or an output would
            take the place of an input.
    """
    if os.path.isdir(pattern):
        pattern = os.path.join(glob.escape(pattern), "*")
    paths = [Path(pattern)] if os.path.isfile(pattern) else sorted(
        Path(p) for p in glob.glob(pattern, recursive=True) if os.path.isfile(p)
    )  # fmt: skip
    if not paths:
        raise RequestError(
            f"--input {pattern}: there is no such file; expected a folder, a file, or a pattern in "
            "quotes, as 'corpus/*.jsonl.gz'"
        )
    shards = [_shard(path.absolute(), out.absolute()) for path in paths]
    _check_names(shards)
    return sorted(shards, key=lambda one: one.name)


def form_at(path: Path) -> tuple[str, str]:
    """What a file has by its name: `text`, `jsonl` or `tsv`; and `.gz`, `.zst` or "".

    Raises:
        RequestError: nothing is installed that reads `.zst`.
    """
    suffix = path.suffix if path.suffix in packing.PACKED else ""
    packing.check(suffix)
    return FORMS.get(_ending(path, suffix), TEXT), suffix


def _ending(path: Path, suffix: str) -> str:
    return Path(path.name.removesuffix(suffix)).suffix


def _shard(path: Path, out: Path) -> Shard:
    form, suffix = form_at(path)
    ending = _ending(path, suffix)
    if ending in NONE:
        raise RequestError(f"{path}: no shard of lines; expected {NONE[ending]}")
    return Shard(path, out / path.name, form, suffix)


def _check_names(shards: Sequence[Shard]) -> None:
    seen: dict[str, Shard] = {}
    for one in shards:
        if one.name in seen:
            raise RequestError(
                f"{seen[one.name].source} and {one.source} have one name, and so would their "
                "outputs: give them in two calls with an output folder each"
            )
        seen[one.name] = one
    for one in shards:
        if one.name + BAD in seen:
            raise RequestError(f"{one.source}{BAD}: bad lines of {one.source} would be told there")
        if one.out.resolve() == one.source.resolve():
            raise RequestError(f"{one.source}: its output would take its place: -o another folder")
