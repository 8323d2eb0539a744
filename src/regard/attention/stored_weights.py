"""How a recorder stores the weights of a step: all, the k largest of each row, or on disk."""

from pathlib import Path

import numpy as np
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
        self.values, places = _largest(weights, min(top_k, self.keys))
        self.places = places.to(torch.int32)
        self.mass = self.values.sum(-1)

    def dense(self) -> Tensor:
        """(..., K), with zeros for weights that were not kept."""
        whole = self.values.new_zeros(*self.values.shape[:-1], self.keys)
        return whole.scatter_(-1, self.places.long(), self.values)


def _largest(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Values and places of the k largest of each row, in any order: (..., k).

    On the CPU a row's k-th largest is found first, which NumPy does five times faster than `topk`;
    rows where several weights equal it are left to `topk`.
    """
    plain = weights.device.type == "cpu" and weights.dtype in (torch.float32, torch.float64)
    if not plain or not 0 < k < weights.shape[-1] or not weights.numel():
        best = weights.topk(k, -1)
        return best.values, best.indices
    rows = weights.reshape(-1, weights.shape[-1])
    own = rows.numpy()
    chosen = own >= np.partition(own, -k, axis=-1)[:, -k, None]
    places = np.flatnonzero(chosen)
    tied = np.empty(0, int)
    if len(places) != k * len(own):
        tied = np.flatnonzero(chosen.sum(1) != k)
        chosen[tied, :k], chosen[tied, k:] = True, False
        places = np.flatnonzero(chosen)
    columns = torch.from_numpy(places % own.shape[1]).view(-1, k)
    if len(tied):
        at = torch.from_numpy(tied)
        columns[at] = rows[at].topk(k, -1).indices
    shape = (*weights.shape[:-1], k)
    return rows.gather(-1, columns).view(shape), columns.view(shape)


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
