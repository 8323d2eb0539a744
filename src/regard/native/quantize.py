r"""Matrices as bytes with one step a row: what int8 decodes with, and what int8 folders hold.

.. math::
    W_{ij} \approx s_i q_{ij}, \quad s_i = \max_j |W_{ij}| / 127, \quad
    q_{ij} = \mathrm{round}(W_{ij} / s_i)
"""

import torch
from torch import Tensor

__all__ = ["row_bytes"]


def row_bytes(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows along the last dimension, (*, n) of floats, as bytes (*, n) and their steps (*, 1)."""
    steps = rows.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    return (rows / steps).round().to(torch.int8), steps
