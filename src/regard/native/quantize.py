r"""Matrices as bytes with one step a row: what int8 decodes with, and what int8 folders hold.

.. math::
    W_{ij} \approx s_i q_{ij}, \quad s_i = \max_j |W_{ij}| / 127, \quad
    q_{ij} = \mathrm{round}(W_{ij} / s_i)

With fewer bits the largest number is 63 or 31 in place of 127.
"""

import torch
from torch import Tensor

__all__ = ["row_bytes"]


def row_bytes(rows: Tensor, bits: int = 8) -> tuple[Tensor, Tensor]:
    """Rows along the last dimension, (*, n) of floats, as bytes (*, n) and their steps (*, 1).

    Args:
        bits: the bytes are at most `2 ** (bits - 1) - 1`, in either direction.
    """
    steps = rows.abs().amax(-1, keepdim=True).clamp(min=1e-30) / (2 ** (bits - 1) - 1)
    return (rows / steps).round().to(torch.int8), steps
