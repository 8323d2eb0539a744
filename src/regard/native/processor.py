"""Who made this processor: MKL, PyTorch's library on a CPU, is slower on some."""

import contextlib
import platform
from functools import cache
from pathlib import Path

__all__ = ["is_amd"]


@cache
def is_amd() -> bool:
    """Whether this is a processor of AMD, as Linux or Windows says."""
    told = platform.processor()
    with contextlib.suppress(OSError):  # no Linux
        told += Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    return "AuthenticAMD" in told
