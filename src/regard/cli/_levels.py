"""The levels of instructions that the C kernels have, for `regard doctor`."""

import os
import platform
import sys

from regard import native

__all__ = ["levels"]

_GOOD_FOR = {
    "AVX-512": "float32 and bfloat16, 16 numbers at once; int8 {int8}",
    "AVX2": "float32 and bfloat16, 8 numbers at once; int8 as pairs of 8-bit products",
    "portable": "float32 and bfloat16, 4 numbers at once; int8 as 16-bit products",
}
_NOT_WRITTEN = {"AMX": "not written"}
_NEVER_RUN = ("Darwin", "Windows")


def levels() -> dict[str, str]:
    """Each level, what it is good for, and whether it runs here, may run, or was never run."""
    library = native.library()
    if library is None:
        return {"none": f"PyTorch computes all ({native.missing()})"}
    names, used = list(_GOOD_FOR), native.level()
    int8 = "as 8-bit products (VNNI)" if library.regard_vnni() else "as 16-bit products (no VNNI)"
    rows = {}
    for name in names if platform.machine() in ("x86_64", "AMD64") else ["portable"]:
        if names.index(name) > names.index(used):
            rows[name] = f"off; REGARD_LEVEL={name} forces it"
        elif name != used:
            rows[name] = "off: this machine lacks it, or REGARD_LEVEL forbids it"
        else:
            rows[name] = f"in use: {_GOOD_FOR[name].format(int8=int8)}"
    if platform.machine() in ("arm64", "aarch64"):
        rows["portable"] += "; the compiler's NEON, checked under qemu alone"
        rows["NEON dot products"] = "not written"
    if platform.system() in _NEVER_RUN:
        rows["not run"] = f"no kernel was ever run on {sys.platform}: it was built elsewhere"
    if "AVX2" not in rows:
        return rows
    return rows | {"AVX-VNNI": _avx_vnni(library.regard_machine_avx_vnni())} | _NOT_WRITTEN


def _avx_vnni(has: bool) -> str:
    """The row of AVX-VNNI: products of bytes in 256 bits."""
    if not has:
        return "this machine lacks it; its products were checked in AVX-512's encoding alone"
    if os.environ.get("REGARD_AVX_VNNI") == "1":
        return "on for int8 on AVX2, by REGARD_AVX_VNNI=1; never run by its authors"
    return "off, as its authors never ran it; REGARD_AVX_VNNI=1 turns it on for int8 on AVX2"
