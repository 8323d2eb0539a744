"""Sparse CSR matrices for PyTorch's products."""

import warnings
from functools import cache

import torch
from torch import Tensor

__all__ = ["compressed"]


@cache
def _warned() -> None:
    """Silence PyTorch's warning that its CSR tensors are in beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        none = torch.zeros(0, dtype=torch.int64)
        torch.sparse_csr_tensor(torch.zeros(2, dtype=torch.int64), none, torch.zeros(0), (1, 1))


def compressed(offsets: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """The matrix whose row i has `values[offsets[i]:offsets[i + 1]]` in `columns`; unchecked."""
    _warned()
    return torch.sparse_csr_tensor(offsets, columns, values, shape, check_invariants=False)
