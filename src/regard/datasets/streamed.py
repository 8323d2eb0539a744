"""Training splits in many files: `data.stream` names them, and how many examples are in memory.

The fields are learned from the first rows of every file, `data.sample` in all. Examples are read,
encoded and forgotten again, a buffer at a time; see `regard.data.storage.shuffle_buffer`.
"""

import glob
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data import sources
from regard.data.batch import some
from regard.data.dataset import Dataset
from regard.data.problems import Problems, Silent
from regard.data.storage.shuffle_buffer import BUFFER, LANES, File, Make, Read, Streamed
from regard.datasets import encoding, section
from regard.datasets.rows import Rows, each
from regard.errors import RequestError
from regard.fields import Field
from regard.fields.file_cells import AddressedField

__all__ = ["expected", "files_of", "sampled", "source", "training"]

log = logging.getLogger(__name__)

Example = tuple[str, int, Mapping[str, Any], list[str]]


def training(
    task: Any,
    config: section.Config,
    files: list[File],
    fields: Mapping[str, Field] | None,
) -> tuple[dict[str, Field], Streamed]:
    """The fields, and the training split.

    Args:
        task: whose data they are.
        files: of the training split.
        fields: those of a trained model; learned from the first rows of the files where not given.

    Raises:
        RequestError: the task must see all rows at once, or `data` asks for it.
    """
    if why := task.together_why:
        raise RequestError(f"data.stream reads rows in parts; {why}: leave out one of the two")
    if config.store:
        raise RequestError(
            "data.store keeps one file; data.stream reads many: leave out one of them"
        )

    def read(file: File, problems: Problems) -> Iterator[Example]:
        return each(file, config, task.examples, "train", problems, one_of_many=True)

    known = dict(fields) if fields is not None else _learned(config, files, read)
    once = {n: own.once() if isinstance(own, AddressedField) else own for n, own in known.items()}

    def made(items: list[Any], problems: Problems) -> Dataset | None:
        rows = _rows(config, items)
        columns, kept = encoding.encoded(rows, config, once, "train", _Places(problems, items))
        if not len(kept):
            return None
        found: Dataset = task.dataset(columns, replace(kept, file=""))
        return found

    return known, source(config, files, read, made)


def source(config: section.Config, files: list[File], read: Read, make: Make) -> Streamed:
    """The files of a section as its `stream` says.

    Raises:
        RequestError: `data` asks for a part of the rows.
    """
    if "train" in config.limit:
        raise RequestError("data.limit.train: a stream has every row; leave it or data.stream out")
    lanes = config.stream.get("lanes") or expected(len(files))
    return Streamed(files, read, make, config.stream.get("buffer") or BUFFER, lanes)


def expected(files: int) -> int:
    """How many lanes there are where a recipe does not say: a power of two, at most one a file."""
    return min(LANES, 1 << (files.bit_length() - 1))


def files_of(stream: Mapping[str, Any], train: Any) -> list[File]:
    """The files of a stream, in the order of their names.

    Args:
        stream: the section; `files` is a pattern, or one for each field (Moses).
        train: the file of the split where the section names none.

    Raises:
        RequestError: none is there, or of one field more than of another.
    """
    told = stream.get("files")
    if not told:
        return [train]
    if isinstance(told, str):
        return list(_matching(told))
    several = {name: _matching(pattern) for name, pattern in told.items()}
    counts = {name: len(own) for name, own in several.items()}
    if len(set(counts.values())) > 1:
        raise RequestError(f"data.stream.files: expected as many files of each field, got {counts}")
    return [
        dict(zip(several, together, strict=True))
        for together in zip(*several.values(), strict=True)
    ]


def _matching(pattern: str) -> list[Path]:
    for place in sources.places():
        found = glob.glob(str(place / Path(pattern).expanduser()), recursive=True)
        files = sorted(path for path in map(Path, found) if path.is_file())
        if files:
            return files
    looked = ", ".join(str(place) for place in sources.places())
    raise RequestError(
        f"data.stream.files: no file matches {pattern!r}: looked in {looked}; expected a pattern "
        "as 'corpus/*.jsonl.gz'"
    )


def _learned(config: section.Config, files: list[File], read: Read) -> dict[str, Field]:
    """The fields, learned from the first rows of every file."""
    return encoding.learn(config, _rows(config, sampled(config, files, read)))


def sampled(config: section.Config, files: list[File], read: Read) -> list[Any]:
    """The first rows of every file, `data.sample` in all; the log says how many.

    Raises:
        RequestError: there is none.
    """
    chosen = [files[i] for i in some(len(files), config.sample)]
    each, items = -(-config.sample // len(chosen)), list[Any]()
    for file in chosen:
        items += islice(read(file, Silent()), min(each, config.sample - len(items)))
    if not items:
        raise RequestError("data.stream: there is no row to learn from in the files")
    log.info(
        "%s are learned from %s rows: the first %s of each of %s",
        encoding.learned_of(config),
        f"{len(items):,}",
        f"{each:,}",
        f"{len(chosen):,} file{'s' * (len(chosen) > 1)}",
    )
    return items


def _rows(config: section.Config, items: list[Example]) -> Rows:
    """Examples of several files as one table; a line is the number of the example."""
    values = {name: [one[2][name] for one in items] for name in config.fields}
    return Rows("", values, [one[3] for one in items], list(range(len(items))))


class _Places(Problems):
    """Tells another of problems by the file and line of an example, which is known by number."""

    def __init__(self, other: Problems, items: list[Example]) -> None:
        super().__init__()
        self.other, self.items = other, items

    def add(
        self, file: str, line: int, what: str, detail: str = "", *, stays: bool = False
    ) -> None:
        """Tell where it is."""
        found, number, _, _ = self.items[line]
        self.other.add(found, number, what, detail, stays=stays)

    def report(self, file: str) -> None:
        """Say nothing: a file is read in parts."""
