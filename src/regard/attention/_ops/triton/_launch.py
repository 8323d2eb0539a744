"""Kernels that are compiled once for any sizes, and launched without Triton's bookkeeping.

`kernel[grid](...)` looks at every argument for the variant that is compiled for multiples of 16 and
for 1: on an H200's host that is 9 of a launch's 21 microseconds. These kernels have no such
variants. Dtypes, device and constants say which one it is, and it is called as Triton's tutorials
call a compiled kernel.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["kernel", "launch", "probe"]

_COMPILED: dict[tuple[Any, ...], Any] = {}


def kernel(function: Callable[..., Any]) -> Any:
    """`triton.jit`, with no variants by what numbers and addresses are."""
    given = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.annotation is not tl.constexpr
    ]
    return triton.jit(function, do_not_specialize=given, do_not_specialize_on_alignment=given)


def launch(
    kernel: Any, grid: tuple[int, int, int], given: tuple[Any, ...], constants: tuple[Any, ...]
) -> None:
    """Run a `kernel` in programs of 4 warps.

    Args:
        given: its arguments, a tensor first; whole numbers must fit in int32.
        constants: its constants, in the order of its signature.
    """
    first: Tensor = given[0]
    index = first.device.index
    key = (kernel, index, constants, *[x.dtype if isinstance(x, Tensor) else 0 for x in given])
    compiled = _COMPILED.get(key)
    if first.is_cuda and torch.cuda.current_device() != index:
        with torch.cuda.device(index):
            launch(kernel, grid, given, constants)
    elif compiled is not None:
        compiled[grid](*given, *constants)
    else:
        compiled = kernel[grid](*given, *constants, num_warps=4)
        if compiled is not None:  # as in the interpreter
            _COMPILED[key] = compiled


@kernel
def _nothing(x):
    tl.store(x, tl.load(x))


def probe() -> None:
    """Compile and launch a kernel that changes nothing, to see that this can be done."""
    launch(_nothing, (1, 1, 1), (torch.zeros(1, device="cuda"),), ())
