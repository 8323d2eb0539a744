"""Sparse matrices in compressed rows, as PyTorch multiplies them."""

import warnings
from functools import cache

import torch
from torch import Tensor

__all__ = ["compressed"]


@cache
def _warned() -> None:
    """PyTorch says once a process that its sparse rows are in beta: not news to our users."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        none = torch.zeros(0, dtype=torch.int64)
        torch.sparse_csr_tensor(torch.zeros(2, dtype=torch.int64), none, torch.zeros(0), (1, 1))


def compressed(offsets: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """The matrix whose row i has `values[offsets[i]:offsets[i + 1]]` in `columns`; unchecked."""
    _warned()
    return torch.sparse_csr_tensor(offsets, columns, values, shape, check_invariants=False)
