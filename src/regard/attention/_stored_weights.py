"""How a recorder stores the weights of a step: all, the k largest of each row, or on disk."""

from pathlib import Path

import torch
from torch import Tensor

__all__ = ["DiskStore", "DiskWeights", "TopKWeights"]


class TopKWeights:
    """The k largest weights of each row; the others are read back as zeros.

    Args:
        weights: (..., K).
        top_k: k.
    """

    def __init__(self, weights: Tensor, top_k: int) -> None:
        self.keys, self.shape = weights.shape[-1], weights.shape
        best = weights.topk(min(top_k, self.keys), -1)
        self.values, self.places = best.values, best.indices.to(torch.int32)
        self.mass = best.values.sum(-1)

    def dense(self) -> Tensor:
        """(..., K), with zeros for weights that were not kept."""
        whole = self.values.new_zeros(*self.values.shape[:-1], self.keys)
        return whole.scatter_(-1, self.places.long(), self.values)


class DiskWeights:
    """The weights of one step in the file of a `DiskStore`."""

    def __init__(self, path: Path, start: int, weights: Tensor) -> None:
        self.path, self.start = path, start
        self.shape, self.dtype = weights.shape, weights.dtype

    def dense(self) -> Tensor:
        """Read them from the file."""
        if not self.shape.numel():
            return torch.zeros(self.shape, dtype=self.dtype)
        size = self.shape.numel() * self.dtype.itemsize
        with self.path.open("rb") as file:
            file.seek(self.start)
            raw = bytearray(file.read(size))
        return torch.frombuffer(raw, dtype=self.dtype).view(self.shape)


class DiskStore:
    """A file to which the weights of each step are appended."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = path.open("wb")

    def put(self, weights: Tensor) -> DiskWeights:
        """Append one step, which can be read immediately."""
        flat = weights.detach().cpu().contiguous()
        start = self._file.tell()
        if flat.numel():
            self._file.write(flat.view(-1).view(torch.uint8).numpy().tobytes())
            self._file.flush()
        return DiskWeights(self.path, start, flat)

    def close(self) -> None:
        """Stop writing; the steps can still be read."""
        self._file.close()
