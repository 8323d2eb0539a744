"""How a recorder keeps one step's weights: whole, the largest few of each row, or on disk."""

from pathlib import Path

import torch
from torch import Tensor

__all__ = ["Kept", "OnDisk", "Shelf"]


class Kept:
    """The largest weights of each row; the others come back as zero.

    Args:
        weights: (..., K).
        top_k: how many of each row.
    """

    def __init__(self, weights: Tensor, top_k: int) -> None:
        self.keys = weights.shape[-1]
        best = weights.topk(min(top_k, self.keys), -1)
        self.values, self.places = best.values, best.indices.to(torch.int32)
        self.mass = best.values.sum(-1)

    def dense(self) -> Tensor:
        """(..., K), with zeros where nothing was kept."""
        whole = self.values.new_zeros(*self.values.shape[:-1], self.keys)
        return whole.scatter_(-1, self.places.long(), self.values)


class OnDisk:
    """One step in a shelf's file."""

    def __init__(self, path: Path, start: int, weights: Tensor) -> None:
        self.path, self.start = path, start
        self.shape, self.dtype = weights.shape, weights.dtype

    def dense(self) -> Tensor:
        """Read it."""
        if not self.shape.numel():
            return torch.zeros(self.shape, dtype=self.dtype)
        size = self.shape.numel() * self.dtype.itemsize
        with self.path.open("rb") as file:
            file.seek(self.start)
            raw = bytearray(file.read(size))
        return torch.frombuffer(raw, dtype=self.dtype).view(self.shape)


class Shelf:
    """A file that steps are written to one after another."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = path.open("wb")

    def put(self, weights: Tensor) -> OnDisk:
        """Write one step; it can be read at once."""
        flat = weights.detach().cpu().contiguous()
        start = self._file.tell()
        if flat.numel():
            self._file.write(flat.view(-1).view(torch.uint8).numpy().tobytes())
            self._file.flush()
        return OnDisk(self.path, start, flat)

    def close(self) -> None:
        """No more is written; what was written can still be read."""
        self._file.close()
