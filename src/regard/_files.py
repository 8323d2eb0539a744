"""Files that are written whole or not at all."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.errors import RegardError

__all__ = ["replace_file", "said_of"]

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def replace_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` make a file beside `path`, then put it in place at once: never half a file.

    What was there before stays until then. A pipe or a device is written to as it is.

    Raises:
        RegardError: the disk is full, or the file cannot be written for another reason.
    """
    target = path.resolve() if path.is_symlink() else path
    if target.exists() and not target.is_file() and not target.is_dir():
        write(target)
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            write(beside)
            with open(beside, "rb") as file:  # a disk may be full only when it comes to this
                os.fsync(file.fileno())
            os.replace(beside, target)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise RegardError(f"{path}: could not be written: {said_of(error)}") from error


def said_of(error: OSError) -> str:
    """What the system said, and what to do where the disk is full.

    Example:
        >>> said_of(OSError(errno.ENOSPC, "No space left on device"))
        'no space left on device; make room and run the same command again'
    """
    said = (error.strerror or str(error) or type(error).__name__).lower()
    return f"{said}; make room and run the same command again" if error.errno in _FULL else said
