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
3. PyTorch: `data_ptr()` does not work while a graph is traced, so wrap the call as an operator
   (`regard.native.operators`):

       @custom_op("regard::x", mutates_args=())
       def x(a: Tensor) -> Tensor:
           out = torch.empty(a.shape)
           X(a.contiguous(), out, native.threads(a.numel()))
           return out

       @x.register_fake
       def _(a): return a.new_empty(a.shape)   # empty_like keeps strides that C does not

       x.register_autograd(backward, setup_context=save)   # backward calls another custom_op

   An operator may not return an input or a view of one.
"""

from regard.native.gate import reset
from regard.native.loading import (
    FOLDER,
    GRAIN,
    at_level,
    level,
    library,
    missing,
    raw,
    threads,
    unavailable_reason,
)

__all__ = [
    "FOLDER",
    "GRAIN",
    "at_level",
    "level",
    "library",
    "missing",
    "raw",
    "reset",
    "threads",
    "unavailable_reason",
]
