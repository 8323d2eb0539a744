"""The shared library of C kernels: found or built, loaded, and its level of instructions."""

import logging
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CDLL
from functools import cache
from pathlib import Path
from typing import Any

import torch

from regard.errors import RequestError
from regard.native._build import BuildError, cached, shipped
from regard.native.constant import constant

__all__ = [
    "FOLDER",
    "GRAIN",
    "at_level",
    "level",
    "library",
    "missing",
    "raw",
    "threads",
    "unavailable_reason",
]


log = logging.getLogger(__name__)

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
    """Use at most these instructions in the block (in the whole process): for tests.

    A library that was built with the level of this machine alone is replaced by one with all.
    """
    one = _at_hand()
    if library() is not None and one is not None and _LEVELS.index(name) < one:
        _replace_by_all_levels()
    found = library()
    if found is None:
        yield
        return
    found.regard_set_level(min(_LEVELS.index(name), _highest()))
    try:
        yield
    finally:
        found.regard_set_level(_highest())


def _highest() -> int:
    """The number of the highest level that may be used: `REGARD_LEVEL` names it.

    Raises:
        RequestError: no such level.
    """
    name = os.environ.get("REGARD_LEVEL") or _LEVELS[-1]
    if name not in _LEVELS:
        raise RequestError(f"REGARD_LEVEL: expected one of {', '.join(_LEVELS)}, got {name!r}")
    return _LEVELS.index(name)


def _at_hand() -> int | None:
    """The level that a library built here has, the best that may be used; None: all levels.

    REGARD_NATIVE=all compiles them at once: for tests, which use all. Unknown processors get all.
    """
    asked = _all or os.environ.get("REGARD_NATIVE") == "all"
    if asked or platform.machine() not in ("x86_64", "AMD64"):
        return None
    machine = {"DEFAULT": 0, "AVX2": 1, "AVX512": 2}.get(torch.backends.cpu.get_cpu_capability())
    return None if machine is None else min(machine, _highest())


def _replace_by_all_levels() -> None:
    global _all
    _all = True
    forget()
    for renew in REPLACED:
        renew()


_all = False
"""Whether a level below this machine's was asked for."""
REPLACED: list[Callable[[], None]] = []
"""Called when another library takes the place of the one in use."""


def _opened(path: Path) -> CDLL:
    found = CDLL(str(path))
    if os.environ.get("REGARD_LEVEL"):
        found.regard_set_level(_highest())
    if os.environ.get("REGARD_AVX_VNNI") == "1":
        found.regard_set_vnni(2)
    return found


def _building() -> None:
    one = _at_hand()
    name = "all levels of instructions" if one is None else _LEVELS[one]
    log.warning("compiling the C kernels for %s, once: this takes about a minute", name)


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
            return _opened(path), None
        except OSError:
            pass  # built for another C library: build one for this machine
    try:
        path, note = cached(FOLDER, _at_hand(), _building)
        return _opened(path), note
    except BuildError as error:
        return None, str(error)
    except OSError as error:
        return None, f"what was built cannot be loaded ({error})"


def forget() -> None:
    """Clear the caches: the next call finds the library again."""
    _found.cache_clear()
    raw.cache_clear()
