"""Kernels in plain C, in one shared library: shipped, or built once into a cache.

Every `*.c` file of this folder is compiled into the library. A compiler is optional: without one
`library()` is None, `missing()` says why, and callers use PyTorch instead. `REGARD_NATIVE=0`
switches all of it off.

How to add a function:

1. C, in `x.c`: `REGARD_API int regard_x(const float *a, float *out, int64_t n, int32_t threads)`,
   which returns 0, or 1 if out of memory. Write its body as a template over vectors (see
   `regard.h`, `lanes.h`) and dispatch by level; everything that is not `REGARD_API` is `static`.
2. Python: declare it, `X = Function("regard_x", "a: f32 (n)", "out: f32 (n) out", "n",
   "threads: threads")`, and call it, `X(a, out, native.threads(a.numel()))`: `gate.py` checks
   types, shapes, strides and status. `native.unavailable_reason("regard_x")` says why the function
   is not available (None: it is), also while a graph is compiled. C checks the contents of tensors
   (ids, lengths, offsets) before it uses them as addresses.
3. PyTorch: `data_ptr()` does not work while a graph is traced, so wrap the call as an operator:

       @torch.library.custom_op("regard::x", mutates_args=())
       def x(a: Tensor) -> Tensor:
           out = torch.empty(a.shape)
           X(a.contiguous(), out, native.threads(a.numel()))
           return out

       @x.register_fake
       def _(a): return a.new_empty(a.shape)   # empty_like keeps strides that C does not

       x.register_autograd(backward, setup_context=save)   # backward calls another custom_op

   An operator may not return an input or a view of one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CDLL
from functools import cache
from pathlib import Path
from typing import Any

import torch

from regard.native._build import BuildError, cached, shipped
from regard.native.constant import constant
from regard.native.gate import Function

__all__ = ["at_level", "level", "library", "missing", "raw", "threads", "unavailable_reason"]

FOLDER = Path(__file__).parent
_LEVELS = ("portable", "AVX2", "AVX-512")
GRAIN = 200_000
"""Operations per thread below which a second thread does not pay off."""


def library() -> CDLL | None:
    """The shared library, or None; found or built at the first call."""
    return _found()[0]


def missing() -> str | None:
    """Why the shared library, or a part of it, is missing, in a clause, or None."""
    return _found()[1]


@cache
def raw(name: str) -> Any:
    """A function of the library without types, or None; only for `gate.Function`."""
    found = library()
    return None if found is None else getattr(found, name, None)


@constant
def unavailable_reason(name: str) -> str | None:
    """Why a function is not available, in a clause, or None. A constant for compilers."""
    if raw(name) is not None:
        return None
    return f"no C, {missing() or f'{name} is not in it'}"


def level() -> str:
    """Which instructions the kernels use: "AVX-512", "AVX2" or "portable"."""
    found = library()
    return _LEVELS[found.regard_get_level()] if found is not None else "none"


@contextmanager
def at_level(name: str) -> Iterator[None]:
    """Use at most these instructions in the block (in the whole process): for tests."""
    found = library()
    if found is None:
        yield
        return
    found.regard_set_level(_LEVELS.index(name))
    try:
        yield
    finally:
        found.regard_set_level(len(_LEVELS) - 1)


def threads(work: int) -> int:
    """The number of threads for `work` elementary operations: PyTorch's number, or one for few."""
    return 1 if work < 2 * GRAIN else max(1, min(torch.get_num_threads(), work // GRAIN))


@cache
def _found() -> tuple[CDLL | None, str | None]:
    if os.environ.get("REGARD_NATIVE", "1") == "0":
        return None, "REGARD_NATIVE=0 switches it off"
    path = shipped(FOLDER)
    if path is not None:
        try:
            return CDLL(str(path)), None
        except OSError:
            pass  # built for another C library: build one for this machine
    try:
        path, note = cached(FOLDER)
        return CDLL(str(path)), note
    except BuildError as error:
        return None, str(error)
    except OSError as error:
        return None, f"what was built cannot be loaded ({error})"


def reset() -> None:
    """Clear the caches, for tests that change the environment."""
    _found.cache_clear()
    raw.cache_clear()
    for function in Function.every:
        function.reset()
