"""Kernels in plain C, in one shared object: shipped, else built once into a cache, else none.

Every `*.c` of this folder is compiled into the same object; a new mechanism joins by being here.
Nothing needs a compiler: without one `library()` is None, `missing()` says why, and callers take
their PyTorch road. `REGARD_NATIVE=0` switches all of it off.

How to add a function:

1. C, in `x.c`: `REGARD_API int regard_x(const float *a, float *out, int64_t n, int32_t threads)`,
   which gives 0, or 1 where there was no memory. Write the inside as a template over vectors (see
   `regard.h`, `lanes.h`) and dispatch by level; whatever is not `REGARD_API` is `static`.
2. Python: `native.function("regard_x", "pplt")`, where the letters are the arguments: p pointer
   (a tensor's `data_ptr()`, 0 for NULL), l int64, i int32, f float, d double, t the number of
   threads (`native.threads(work)`). It is None where the function is not to be had; `refuses`
   asks `native.lacks(...)` why, which a compiler can ask too.
3. PyTorch: `data_ptr()` does not work while a graph is traced, so wrap the call as an operator:

       @torch.library.custom_op("regard::x", mutates_args=())
       def x(a: Tensor) -> Tensor:
           a = a.contiguous()            # hold it in a variable: C sees only its address
           out = torch.empty_like(a)
           f = native.function("regard_x", "pplt")
           f(a.data_ptr(), out.data_ptr(), a.numel(), native.threads(a.numel()))
           return out

       @x.register_fake
       def _(a): return a.new_empty(a.shape)   # empty_like keeps strides that C does not

       x.register_autograd(backward, setup_context=save)   # backward calls another custom_op

   An operator may not return an input or a view of one.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CDLL, c_double, c_float, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path

import torch

from regard.native._build import BuildError, cached, shipped
from regard.native.constant import constant

__all__ = ["at_level", "function", "lacks", "level", "library", "missing", "threads"]

FOLDER = Path(__file__).parent
_LETTERS = {"p": c_void_p, "l": c_int64, "i": c_int32, "f": c_float, "d": c_double, "t": c_int32}
_LEVELS = ("portable", "AVX2", "AVX-512")
GRAIN = 200_000
"""Operations below which a second thread costs more than it brings."""


def library() -> CDLL | None:
    """The shared object, or None where there is none; found or built at the first call."""
    return _found()[0]


def missing() -> str | None:
    """Why there is no shared object (or no part of it), in a clause; None where all is well."""
    return _found()[1]


@cache
def function(name: str, letters: str) -> Callable[..., int] | None:
    """A function of the shared object, or None; `letters` as the module's text says."""
    found = library()
    if found is None or not hasattr(found, name):
        return None
    pointer: Callable[..., int] = getattr(found, name)
    pointer.argtypes = [_LETTERS[letter] for letter in letters]  # type: ignore[attr-defined]
    pointer.restype = c_int32  # type: ignore[attr-defined]
    return pointer


@constant
def lacks(name: str, letters: str) -> str | None:
    """Why a function is not to be had, in a clause; None where it is. A constant for compilers."""
    if function(name, letters) is not None:
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
    """How many threads for so many elementary operations: torch's number, one for few."""
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
            pass  # made for another C library: build one that is for this
    try:
        path, note = cached(FOLDER)
        return CDLL(str(path)), note
    except BuildError as error:
        return None, str(error)
    except OSError as error:
        return None, f"what was built cannot be loaded ({error})"


def reset() -> None:
    """Forget what was found: for tests that change the environment."""
    _found.cache_clear()
    function.cache_clear()
