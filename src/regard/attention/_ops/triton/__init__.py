"""GPU kernels in Triton: additive scores, feature-wise attention, attention along edges.

Triton is part of PyTorch's CUDA wheels for Linux. It is imported at the first call, not before.
"""

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from regard.native.constant import constant

__all__ = [
    "FEW",
    "additive_scores",
    "edge_attention",
    "feature_attention",
    "supports",
    "unavailable_reason",
    "worthwhile",
]

FEW = 1 << 21
"""Features of pairs that plain PyTorch may store (8 MiB): of fewer, Triton's launches cost more."""


@constant
def unavailable_reason() -> str | None:
    """Why the Triton kernels are not available, in a clause, or None."""
    return _missing()


@cache
def _missing() -> str | None:
    if find_spec("triton") is None:
        return "Triton is not installed"
    if not torch.cuda.is_available():
        return "there is no CUDA device"
    if torch.version.hip is None and torch.cuda.get_device_capability() < (7, 0):
        return "Triton needs a GPU of compute capability 7.0 or more"
    try:  # Triton builds its launcher with a C compiler: without one the first launch fails
        from regard.attention._ops.triton._launch import probe

        probe()
    except Exception as error:
        return f"Triton cannot launch a kernel here ({str(error).splitlines()[0]})"
    return None


def supports(*tensors: Tensor) -> bool:
    """Whether the kernels support these tensors: on a GPU, float32 or lower."""
    low = (torch.float32, torch.bfloat16, torch.float16)
    return all(t.is_cuda and t.dtype in low for t in tensors) and unavailable_reason() is None


def worthwhile(query: Tensor, key: Tensor) -> bool:
    """Whether there are more than `FEW` features of pairs; a compiled graph is for any number."""
    pairs = max(query.numel() * key.shape[-2], key.numel() * query.shape[-2])
    return torch.compiler.is_compiling() or pairs > FEW


def additive_scores(query: Tensor, key: Tensor, v: Tensor) -> Tensor:
    """As `regard.attention._ops.additive.additive_scores`; see `triton/additive.py`."""
    from regard.attention._ops.triton import additive

    return additive.additive_scores(query, key, v)


def feature_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    start: Tensor,
    stop: Tensor,
    mask: Tensor | None,
    scale: float,
    bound: float,
) -> Tensor:
    """As the operator of `regard.attention._kernels.features`; see `triton/features.py`."""
    from regard.attention._ops.triton import features

    return features.feature_attention(query, key, value, start, stop, mask, scale, bound)


def edge_attention(
    left: Tensor,
    right: Tensor,
    value: Tensor,
    seed: Tensor,
    offsets: Tensor,
    sources: Tensor,
    back: Tensor | None,
    targets: Tensor | None,
    places: Tensor | None,
    slope: float,
    rate: float,
) -> Tensor:
    """As the operator of `regard.attention._kernels.edges`; see `triton/edges.py`."""
    from regard.attention._ops.triton import edges

    graph = offsets, sources, back, targets, places
    return edges.edge_attention(left, right, value, seed, *graph, slope, rate)
