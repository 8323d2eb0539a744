"""Freed memory that is kept, and objects that the garbage collector need not look at.

A training step on the CPU frees and asks again for the same large tensors; glibc returns each to
the kernel and pays a page fault for every 4 KiB when it comes back. Keeping it is worth 1.4x in
bf16 training of a small Transformer here (`benchmarks/malloc.py`). It changes no result.
"""

import ctypes
import gc
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["hand_back", "keep_freed_memory", "uncollected"]

logger = logging.getLogger(__name__)

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from malloc.h


def keep_freed_memory() -> bool:
    """Set glibc's trim and mmap thresholds for this process; False where there is no glibc.

    Resident memory then stays at its high-water mark; where sizes differ from step to step that
    rises for hours, for holes in it fit nothing: `hand_back` now and then.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    done = bool(mallopt(M_MMAP_THRESHOLD, 1 << 30)) and bool(mallopt(M_TRIM_THRESHOLD, 2**31 - 1))
    logger.debug("mallopt: %s", "freed memory is kept" if done else "refused")
    return done


def hand_back() -> bool:
    """Give the kernel every free page of the heap once; False where there is no glibc.

    Costs the next step its page faults, some tenths of a second for a gigabyte.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (OSError, AttributeError):
        return False


_frozen = False
"""Whether objects of this process are known to be frozen."""


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection in the block, and none of what is there at its end.

    For imports and the reading of a model: they make a million objects that stay, and the collector
    looks at them again and again (0.3 s of a command's start). Only the first block of a process
    does this, and none where the collector is off: what is frozen is never freed.
    """
    global _frozen
    _frozen = _frozen or gc.get_freeze_count() > 0  # counts them: 50 ms for a million
    if _frozen or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        _frozen = True
        gc.enable()
