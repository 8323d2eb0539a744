"""A corpus on disk: ids and texts of millions of rows, read where they are wanted.

A store is a folder, which `token_parts.build` makes. It has one file for each array; `store.json`
comes last, and a folder without it is not finished. Nothing of it is in memory but the places of
rows.
"""

import os
import weakref
from abc import abstractmethod
from collections.abc import Sequence, Sized
from pathlib import Path
from typing import Any, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from regard.data.ragged import RaggedIds
from regard.errors import RegardError, RequestError
from regard.system.plain_json import read_json

__all__ = ["DONE", "Joined", "Lazy", "Single", "Store", "StoredIds", "StoredTexts", "opened"]

DONE = "store.json"
_ANEW = "remove the folder, and it is made again"


class _Rows:
    """Rows of one array, end to end in a `.npy` file; a row is read when it is asked for.

    A memory map would count as the program's memory as its pages are touched. These do not.
    """

    def __init__(self, path: Path) -> None:
        self.map = _array(path)
        self._name, self._file = str(path), os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        self._first = int(cast(np.memmap, self.map).offset)

    def read(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[Any]:
        """The rows that begin and end there, one behind the other."""
        sizes = ends - starts
        if len(sizes) and (sizes.min() < 0 or starts.min() < 0 or ends.max() > len(self.map)):
            raise RegardError(f"{self._name} is damaged: it has no such rows; {_ANEW}")
        out = np.empty(int(sizes.sum()), self.map.dtype)
        if not hasattr(os, "preadv"):  # Windows
            places = np.concatenate([[0], np.cumsum(sizes)])
            for at, start, end in zip(
                places.tolist(), starts.tolist(), ends.tolist(), strict=False
            ):
                out[at : at + end - start] = self.map[start:end]
            return out
        width, at = out.itemsize, 0
        view = memoryview(out.view(np.uint8).data)
        for start, size in zip((starts * width).tolist(), (sizes * width).tolist(), strict=True):
            if size and os.preadv(self._file, [view[at : at + size]], self._first + start) != size:
                raise RegardError(f"{self._name} ended early: it was changed while it was read")
            at += size
        return out


class StoredIds(RaggedIds):
    """Ids in a file: as `RaggedIds`, but rows are read when a batch has them.

    Args:
        path: a `.npy` file of int32 (tokens,).
        starts: of each row, and the end of the last: (rows + 1,).
    """

    def __init__(self, path: Path, starts: NDArray[np.int64]) -> None:
        self._rows = _Rows(path)
        super().__init__(self._rows.map, starts)

    def take(self, indices: NDArray[np.int64]) -> RaggedIds:
        """The rows at `indices`, in memory."""
        at = np.asarray(indices, np.int64)
        flat = self._rows.read(self.starts[at], self.starts[at + 1])
        return RaggedIds.of(flat, self.sizes_at(at))


T = TypeVar("T")


class Lazy(Sequence[T]):
    """A sequence whose items are made when they are asked for, by `item`."""

    @abstractmethod
    def item(self, at: int) -> T:
        """The item at a place from 0 on."""

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> "T | list[T]":
        found = range(len(self))[index]
        return [self.item(at) for at in found] if isinstance(found, range) else self.item(found)


class StoredTexts(Lazy[str]):
    """Texts in a file, each read when it is asked for.

    Args:
        path: a `.npy` file of their bytes in UTF-8.
        starts: of each text, and the end of the last: (texts + 1,).
    """

    def __init__(self, path: Path, starts: NDArray[np.int64]) -> None:
        self._rows, self._starts = _Rows(path), starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def item(self, at: int) -> str:
        """Read a text."""
        found = self._rows.read(self._starts[at : at + 1], self._starts[at + 1 : at + 2])
        return found.tobytes().decode("utf-8", "replace")


class Joined(Lazy[str]):
    """Texts of several columns, those of a row as one.

    Args:
        columns: of one length.
        between: what stands between two of them.
    """

    def __init__(self, columns: Sequence[Sequence[str]], between: str) -> None:
        self._columns, self._between = columns, between

    def __len__(self) -> int:
        return len(self._columns[0])

    def item(self, at: int) -> str:
        """Join those of a row."""
        return self._between.join(column[at] for column in self._columns)


class Single(Lazy[list[str]]):
    """Each of some texts as a list of its own: the one right output of an example."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def item(self, at: int) -> list[str]:
        """The text at a place, in a list."""
        return [self._texts[at]]


class Store:
    """A finished store.

    Args:
        folder: of the store.

    Attributes:
        facts: `rows`, `tokens` of all fields, `left_out` (how many lines, of each kind).
        texts: of each field, as it was written.
        ids: rows of ids by name: of each text, and of what is more.
        dense: other arrays with a row for each example, by name.
        lines: the number of each row's line in the file that it was read from.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self._open()
        except RegardError:
            raise
        except Exception as error:  # of damaged files NumPy raises nearly anything
            said = " ".join(str(error).split())[:200] or type(error).__name__
            raise RequestError(f"{folder}: this store is damaged ({said}); {_ANEW}") from None

    def _open(self) -> None:
        folder = self.folder
        self.facts: dict[str, Any] = _facts(folder / DONE)
        names = self.facts["fields"]
        self.ids = {
            name: StoredIds(
                folder / f"{name}.ids.npy", np.array(_array(folder / f"{name}.starts.npy"))
            )
            for name in self.facts["ragged"]
        }
        self.dense = {
            name: _array(folder / f"{name}.dense.npy").view(np.ndarray)
            for name in self.facts["dense"]
        }
        self.texts = {
            name: StoredTexts(folder / f"{name}.text.npy", _array(folder / f"{name}.places.npy"))
            for name in names
        }
        self.lines: NDArray[np.int64] = _array(folder / "lines.npy")
        sized: list[Sized] = [
            *self.ids.values(),
            *self.texts.values(),
            *self.dense.values(),
            self.lines,
        ]
        rows = [len(one) for one in sized]
        if set(rows) != {len(self)}:
            raise RequestError(
                f"{folder}: this store is damaged: it is said to have {len(self)} rows, and "
                f"its files have {sorted(set(rows))}; {_ANEW}"
            )

    def __len__(self) -> int:
        return int(self.facts["rows"])


def _facts(path: Path) -> dict[str, Any]:
    """What `store.json` says; ValueError where it is not such a file."""
    found = read_json(path.read_text("utf-8"))
    for kind in ("fields", "ragged", "dense"):
        names = found.get(kind) if isinstance(found, dict) else None
        if not isinstance(names, list) or not all(_is_name(name) for name in names):
            raise ValueError(f"{path.name} names no fields")
    if type(found.get("rows")) is not int or found["rows"] < 0:
        raise ValueError(f"{path.name} has no number of rows")
    return dict(found)


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and all(part.isidentifier() for part in name.split("."))


_KINDS = {"ids": "<i4", "text": "|u1"}
"""What arrays are made of, by the middle of their names; all others of `<i8`."""
_DENSE = "biuf"
"""Kinds of numbers that other arrays may be made of."""


def _array(path: Path) -> NDArray[Any]:
    """A row of numbers in a file, mapped; ValueError where it is not one of a store."""
    found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    middle = path.name.split(".")[-2]
    if middle == "dense":
        if found.ndim < 1 or found.dtype.kind not in _DENSE:
            raise ValueError(f"{path.name} has no rows of numbers")
        return found
    kind = np.dtype(_KINDS.get(middle, "<i8"))
    if found.ndim != 1 or found.dtype != kind:
        raise ValueError(f"{path.name} is no row of {kind}")
    return found


def opened(folder: Path) -> Store | None:
    """The store in a folder; None where there is none, or one that was not finished."""
    return Store(folder) if (folder / DONE).is_file() else None
