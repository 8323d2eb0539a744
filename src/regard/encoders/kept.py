"""States of words kept on disk: shards of half floats, each written whole or not at all.

A folder has `NAME.npy` with states and `NAME.npz`, written behind it, that says whose they are. A
second run finds them; one that was stopped goes on behind its last shard. Texts are known by a
digest; states stay on disk until a batch has them.
"""

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import RequestError
from regard.system.files import replace_file

__all__ = ["KeptStates", "StateRows", "key_of", "usual_place"]

SHARD = 1 << 25
"""Bytes of states from which on a shard is written."""
AT_ONCE = 256
"""Texts that are encoded together: their states in float32 are in memory."""
LARGEST = float(np.finfo(np.float16).max)


def usual_place() -> Path:
    """Where states are kept if nobody says: in $REGARD_CACHE, else in the user's cache folder.

    Raises:
        RequestError: there is no home folder.
    """
    named, base = os.environ.get("REGARD_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named) / "states"
    try:
        return (Path(base) if base else Path.home() / ".cache") / "regard" / "states"
    except RuntimeError as error:
        raise RequestError(
            "there is no home folder to keep states in: name a folder as data.vectors.store"
        ) from error


def key_of(text: str, places: NDArray[np.int64]) -> bytes:
    """A digest of a text and of where its words are."""
    found = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    found.update(b"\0" + np.ascontiguousarray(places, np.int64).tobytes())
    return found.digest()


class _Shard:
    """States of several texts, end to end, on disk or in memory; a copy opens the file again."""

    def __init__(self, path: Path | None, states: NDArray[np.float16] | None = None) -> None:
        self.path, self._states = path, states

    @property
    def states(self) -> NDArray[np.float16]:
        if self._states is None:
            assert self.path is not None
            self._states = np.load(self.path, mmap_mode="r", allow_pickle=False)
        return self._states

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_states": None if self.path else self._states}


class StateRows:
    """The states of texts, one row a text.

    Args:
        shards: which each stands in, `_Shard`.
        starts, counts: where, and how many words it has.
        shape: (layers, size) of a state.
    """

    def __init__(
        self,
        shards: Sequence[_Shard],
        starts: NDArray[np.int64],
        counts: NDArray[np.int64],
        shape: tuple[int, int],
    ) -> None:
        self.shards, self.starts, self.counts, self.shape = shards, starts, counts, shape

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> NDArray[np.float16]:
        """Those of one text, (words, layers, size)."""
        start = int(self.starts[row])
        return self.shards[row].states[start : start + int(self.counts[row])]

    def take(self, indices: NDArray[np.int64]) -> "StateRows":
        """Those of some texts."""
        shards = [self.shards[i] for i in indices.tolist()]
        return StateRows(shards, self.starts[indices], self.counts[indices], self.shape)

    def padded(self, indices: NDArray[np.int64], width: int) -> Tensor:
        """Those of some texts, float32, with zeros behind them: (texts, width, layers, size)."""
        found = np.zeros((len(indices), width, *self.shape), np.float32)
        for row, i in enumerate(indices.tolist()):
            found[row, : self.counts[i]] = self[i]
        return torch.from_numpy(found)


class KeptStates:
    """States that were computed before, by the keys of their texts.

    Args:
        folder: of the shards; None: they stay in memory.
        shape: (layers, size) of a state.

    Raises:
        RequestError: a shard is damaged or of another shape.
    """

    def __init__(self, folder: Path | None, shape: tuple[int, int]) -> None:
        self.folder, self.shape = folder, shape
        self.at: dict[bytes, tuple[_Shard, int, int]] = {}
        for path in sorted(folder.glob("*.npz")) if folder is not None else ():
            self._read(path)

    def _read(self, path: Path) -> None:
        shard = _Shard(path.with_suffix(".npy"))
        try:
            with np.load(path, allow_pickle=False) as told:
                keys, counts = told["keys"], told["counts"]
            fits = shard.states.shape == (int(counts.sum()), *self.shape)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise RequestError(
                f"{path}: the states that are kept there cannot be read ({error}); remove the "
                "file, and they are computed again"
            ) from None
        if not fits:
            raise RequestError(
                f"{path}: expected states of shape {self.shape}, got {shard.states.shape[1:]}; "
                "remove the file, and they are computed again"
            )
        self._enter(shard, [key.tobytes() for key in keys], counts.tolist())

    def _enter(self, shard: _Shard, keys: Iterable[bytes], counts: Sequence[int]) -> None:
        start = 0
        for key, count in zip(keys, counts, strict=True):
            self.at[key] = (shard, start, count)
            start += count

    def add(
        self, keys: Sequence[bytes], compute: Callable[[list[int]], Sequence[NDArray[np.float32]]]
    ) -> None:
        """Compute what is not there yet, a shard at a time.

        Args:
            keys: of texts; those that are twice there are computed once.
            compute: gives the states (words, layers, size) of texts by their places among `keys`.
        """
        first: dict[bytes, int] = {}
        for place, key in enumerate(keys):
            first.setdefault(key, place)
        wanted = [place for key, place in first.items() if key not in self.at]
        made: list[NDArray[np.float16]] = []
        whose: list[bytes] = []
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            made += [np.clip(one, -LARGEST, LARGEST).astype(np.float16) for one in compute(some)]
            whose += [keys[i] for i in some]
            if sum(one.nbytes for one in made) >= SHARD:
                self._write(whose, made)
                made, whose = [], []
        if whose:
            self._write(whose, made)

    def _write(self, keys: list[bytes], made: list[NDArray[np.float16]]) -> None:
        counts = [len(one) for one in made]
        states = np.concatenate(made) if made else np.zeros((0, *self.shape), np.float16)
        if self.folder is None:
            self._enter(_Shard(None, states), keys, counts)
            return
        path = self.folder / hashlib.blake2b(b"".join(keys), digest_size=16).hexdigest()
        names = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), -1)

        def save(place: Path) -> None:
            with open(place, "wb") as file:
                np.save(file, states, allow_pickle=False)

        def tell(place: Path) -> None:
            with open(place, "wb") as file:
                np.savez(file, keys=names, counts=np.array(counts, np.int64))

        replace_file(path.with_suffix(".npy"), save)
        replace_file(path.with_suffix(".npz"), tell)  # last: without it the shard does not count
        self._enter(_Shard(path.with_suffix(".npy")), keys, counts)

    def rows(self, keys: Sequence[bytes]) -> StateRows:
        """Those of some texts, all of them there."""
        found = [self.at[key] for key in keys]
        starts = np.fromiter((start for _, start, _ in found), np.int64, len(found))
        counts = np.fromiter((count for *_, count in found), np.int64, len(found))
        return StateRows([shard for shard, *_ in found], starts, counts, self.shape)
