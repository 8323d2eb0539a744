"""Columns of arrays."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["ArrayColumn"]


class ArrayColumn:
    """Values of one size in an array (n, …).

    Args:
        known: whether each can be learned from.
    """

    def __init__(self, values: NDArray[Any], known: NDArray[np.bool_] | None = None) -> None:
        self.values = values
        self.known = np.ones(len(values), bool) if known is None else known

    def __len__(self) -> int:
        return len(self.values)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """A value is no sequence."""
        return np.ones(len(self), np.int64)

    @property
    def counts(self) -> NDArray[np.int64]:
        """1 for what can be learned from."""
        return self.known.astype(np.int64)

    def take(self, indices: NDArray[np.int64]) -> "ArrayColumn":
        """Some of the values."""
        return ArrayColumn(self.values[indices], self.known[indices])

    def collate(self, indices: NDArray[np.int64]) -> Tensor:
        """Some of the values as a tensor (B, …)."""
        return torch.from_numpy(self.values[indices])
