"""Many short lists of ids in two arrays: millions of tokens take megabytes, not gigabytes."""

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["RaggedIds"]


class RaggedIds(Sequence[NDArray[np.int32]]):
    """Rows of ids end to end: `flat` int32 (tokens,) and `starts` int64 (rows + 1,)."""

    def __init__(self, flat: NDArray[np.int32], starts: NDArray[np.int64]) -> None:
        self.flat = flat
        self.starts = starts

    @classmethod
    def of(cls, flat: NDArray[np.int32], sizes: NDArray[np.int64]) -> "RaggedIds":
        """Pack ids that are already end to end, given the size of each row."""
        return cls(flat, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    @classmethod
    def rows(cls, rows: Sequence[Sequence[int]]) -> "RaggedIds":
        """Pack lists of ids."""
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        flat = (i for row in rows for i in row)
        return cls.of(np.fromiter(flat, np.int32, int(sizes.sum())), sizes)

    @classmethod
    def join(cls, parts: Sequence["RaggedIds"]) -> "RaggedIds":
        """The rows of several packings, one after the other."""
        flat = np.concatenate([part.flat for part in parts])
        return cls.of(flat, np.concatenate([part.sizes for part in parts]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, index: int) -> NDArray[np.int32]: ...
    @overload
    def __getitem__(self, index: slice) -> "RaggedIds": ...
    def __getitem__(self, index: int | slice) -> "NDArray[np.int32] | RaggedIds":
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        at = range(len(self))[index]
        return self.flat[self.starts[at] : self.starts[at + 1]]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of ids in each row, (rows,)."""
        return np.diff(self.starts)

    def sizes_at(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sizes of some rows."""
        return self.starts[indices + 1] - self.starts[indices]

    def take(self, indices: NDArray[np.int64]) -> "RaggedIds":
        """The rows at `indices`, in that order, as a new packing."""
        sizes = self.sizes_at(indices)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        # The place in the old `flat` of each id of the new one.
        places = np.arange(starts[-1]) + np.repeat(self.starts[indices] - starts[:-1], sizes)
        return RaggedIds(self.flat[places], starts)

    def padded(self, indices: NDArray[np.int64], pad: int, end: int) -> NDArray[np.int64]:
        """Rows with `end` behind each, right-padded to the longest.

        Shapes:
            indices (n,) -> (n, longest + 1)
        """
        rows = self.take(indices)
        sizes = rows.sizes
        out = np.full((len(sizes), int(sizes.max(initial=0)) + 1), pad, np.int64)
        out[np.arange(out.shape[1]) < sizes[:, None]] = rows.flat
        out[np.arange(len(sizes)), sizes] = end
        return out
