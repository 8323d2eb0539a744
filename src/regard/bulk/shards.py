"""Which files are read, and what becomes of each."""

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.files import packing
from regard.data.files.registry import FORMATS, packing_of, refuse_unread, unpacked_name
from regard.errors import RequestError
from regard.inference.records import TEXT, kind_of

__all__ = ["BAD", "Shard", "found"]

BAD = ".bad.jsonl"
"""What is added to a shard's name for the file of its bad lines."""


@dataclass(frozen=True)
class Shard:
    """One file of lines, and where its output goes.

    Args:
        form: `text`, `jsonl`, `tsv` or `csv`.
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
    paths = (
        [Path(pattern)]
        if os.path.isfile(pattern)
        else sorted(Path(p) for p in glob.glob(pattern, recursive=True) if os.path.isfile(p))
    )
    if not paths:
        raise RequestError(
            f"--input {pattern}: there is no such file; expected a folder, a file, or a pattern in "
            "quotes, as 'corpus/*.jsonl.gz'"
        )
    shards = [_shard(path.absolute(), out.absolute()) for path in paths]
    _check_names(shards)
    return sorted(shards, key=lambda one: one.name)


def _shard(path: Path, out: Path) -> Shard:
    suffix = packing_of(path)
    packing.check(suffix)
    form = kind_of(path)
    if form == TEXT:
        refuse_unread(unpacked_name(path), "unsupported file type; ")
    elif not FORMATS[form].lines:
        known = ", ".join(FORMATS[name].endings[0] for name in FORMATS if FORMATS[name].lines)
        raise RequestError(f"{path}: unsupported file type; expected {known} or lines of text")
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
