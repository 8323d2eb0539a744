"""One training per folder: a lock that is released when its process ends, however it ends."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from regard.errors import RequestError

__all__ = ["FILE", "locked"]

FILE = ".training"
"""In the folder while it is trained into: which process does it. Nothing is read from it but that:
the lock is the system's, on the open file, and is gone with the process, also after `kill -9`."""

_talk = logging.getLogger("regard.train")


@contextmanager
def locked(
    folder: Path, *, force: bool = False, name: str = FILE, does: str = "trains"
) -> Iterator[None]:
    """Lock a folder for this process.

    Args:
        force: ignore the lock of another process, for file systems with unreliable locks.
        name: of the file that is locked.
        does: what the process does there.

    Raises:
        RequestError: another process trains there; names the process.
    """
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    file, other = _taken(path)
    if file is None and other is not None:
        said = f"{folder}: another process {does} here ({other})"
        if not force:
            raise RequestError(
                f"{said}: wait for it or stop it; -o {does} elsewhere"
                + (", --force ignores the lock" if name == FILE else "")
            )
        _talk.warning("%s; --force: both write it now", said)
    try:
        yield
    finally:
        if file is not None:
            path.unlink(missing_ok=True)  # before the lock is released: no other process's file
            file.close()
        if made:
            with suppress(OSError):  # where nothing was written
                folder.rmdir()


def _taken(path: Path) -> tuple[BinaryIO | None, str | None]:
    """The locked file, or its owner; neither if the system has no locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None, None
    while True:
        file = open(path, "a+b", buffering=0)  # noqa: SIM115  (it is held as long as the lock)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            who = file.read(200).decode("utf-8", "replace").strip()
            file.close()
            return None, who or "it does not say which"
        except OSError:  # a file system without locks
            file.close()
            return None, None
        if _same(file, path):  # else its owner ended, and took it away, in between
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
            return file, None
        file.close()


def _same(file: BinaryIO, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False
