"""`REGARD_COMPARE=1`: every kernel's result is compared with the reference, while one debugs.

Calls that draw random numbers (dropout, samples) and compiled graphs are not compared. Each call
then costs as much as the reference does, so this is for a small input that looks wrong.
"""

import os

import torch

from regard.attention._kernels.reference import Reference
from regard.attention.call import Attended, Call
from regard.errors import RegardError

__all__ = ["compare", "wanted"]

WANTED = os.environ.get("REGARD_COMPARE", "") not in ("", "0")
LIMITS = {torch.float64: 1e-9, torch.float32: 1e-4}
"""Largest difference, per unit of the largest number; of lower precision 0.03."""


def wanted() -> bool:
    """Whether calls are compared: `REGARD_COMPARE` is set, and no compiler traces the call."""
    return WANTED and not torch.compiler.is_compiling()


def compare(name: str, call: Call, found: Attended) -> None:
    """Compare one result with the reference's.

    Raises:
        RegardError: the two differ; names the kernel, the parts and the shapes.
    """
    if name == Reference.name or _draws(call):
        return
    with torch.no_grad():
        expected = Reference().run(call)
    off = _off(found.context, expected.context)
    if off is None and found.weights is not None and expected.weights is not None:
        off = _off(found.weights, expected.weights)
    if off is not None:
        kinds = (call.score, call.select, call.read, call.position, call.mask, call.carry)
        parts = ", ".join(type(part).__name__ for part in kinds if part is not None)
        shapes = ", ".join(str(tuple(x.shape)) for x in call.tensors)
        raise RegardError(
            f"the kernel {name!r} differs from the reference by {off:.2g} (REGARD_COMPARE): "
            f"{parts} with query, key and value {shapes} of {call.tensors[0].dtype}; "
            'use kernels("reference") and report it'
        )


def _off(found: torch.Tensor, expected: torch.Tensor) -> float | None:
    """The largest difference, where it is above the limit."""
    limit = LIMITS.get(found.dtype, 0.03)
    if found.shape != expected.shape:
        return float("inf")
    if found.numel() == 0:
        return None
    wide = expected.detach().double()
    off = float((found.detach().double() - wide).abs().max())
    return None if off <= limit * max(1.0, float(wide.abs().max())) else off


def _draws(call: Call) -> bool:
    """Whether a call draws random numbers."""
    dropped = getattr(call.read, "dropout", 0.0) and getattr(call.read, "training", False)
    return bool(dropped) or bool(getattr(call.select, "choices", None))
