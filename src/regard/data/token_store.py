"""A corpus on disk: ids and texts of millions of rows, read where they are wanted.

A store is a folder, which `token_parts.build` makes. It has one file for each array; `store.json`
comes last, and a folder without it is not finished. Nothing of it is in memory but the places of
rows.
"""

import json
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from regard.data.packed import RaggedIds
from regard.errors import RegardError

__all__ = ["DONE", "Single", "Store", "StoredIds", "StoredTexts", "opened"]

DONE = "store.json"


class _Rows:
    """Rows of one array, end to end in a `.npy` file; a row is read when it is asked for.

    A memory map would count as the program's memory as its pages are touched. These do not.
    """

    def __init__(self, path: Path) -> None:
        self.map = np.load(path, mmap_mode="r")
        self._name, self._file = str(path), os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        self._first = int(self.map.offset)

    def read(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[Any]:
        """The rows that begin and end there, one behind the other."""
        sizes = ends - starts
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


class StoredTexts(Sequence[str]):
    """Texts in a file, each read when it is asked for.

    Args:
        path: a `.npy` file of their bytes in UTF-8.
        starts: of each text, and the end of the last: (texts + 1,).
    """

    def __init__(self, path: Path, starts: NDArray[np.int64]) -> None:
        self._rows, self._starts = _Rows(path), starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> "str | list[str]":
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        at = range(len(self))[index]
        found = self._rows.read(self._starts[at : at + 1], self._starts[at + 1 : at + 2])
        return found.tobytes().decode()


class Single(Sequence[list[str]]):
    """Each of some texts as a list of its own: the one right output of an example."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> list[str]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[str]]: ...
    def __getitem__(self, index: int | slice) -> "list[str] | list[list[str]]":
        if isinstance(index, slice):
            return [[one] for one in self._texts[index]]
        return [self._texts[index]]


class Store:
    """A finished store.

    Args:
        folder: of the store.

    Attributes:
        facts: `rows`, `tokens` of all fields, `left_out` (how many lines, of each kind).
        ids, texts: of each field.
        lines: the number of each row's line in the file that it was read from.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: dict[str, Any] = json.loads((folder / DONE).read_text("utf-8"))
        names = self.facts["fields"]
        self.ids = {
            name: StoredIds(folder / f"{name}.ids.npy", np.load(folder / f"{name}.starts.npy"))
            for name in names
        }
        self.texts = {
            name: StoredTexts(
                folder / f"{name}.text.npy", np.load(folder / f"{name}.places.npy", mmap_mode="r")
            )
            for name in names
        }
        self.lines: NDArray[np.int64] = np.load(folder / "lines.npy", mmap_mode="r")

    def __len__(self) -> int:
        return int(self.facts["rows"])


def opened(folder: Path) -> Store | None:
    """The store in a folder; None where there is none, or one that was not finished."""
    return Store(folder) if (folder / DONE).is_file() else None
