"""Files that are written whole or not at all."""

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.errors import RegardError, RequestError

__all__ = ["replace_file", "replace_files", "said_of", "settle", "sweep"]

READY, LIST = ".ready", "files.json"
"""A folder within one that is written, and the list of what it brings."""

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
            # Windows hands over only what is open for writing.
            with open(
                beside, "rb" if os.name == "posix" else "r+b"
            ) as file:  # a disk may be full only when it comes to this
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


def replace_files(folder: Path, files: Mapping[str, bytes], owned: Sequence[str] = ()) -> None:
    """Write files so that a folder has all of them or none, whenever the process is killed.

    They are made in a folder of their own, which is then renamed to `.ready`: from there on they
    count, and each goes to its place. Where that is cut short `settle` goes on with it; who reads
    such a folder calls it first.

    Args:
        owned: patterns of the names that belong to the files; others of these names are removed.

    Raises:
        RegardError: the disk is full, or the folder cannot be written for another reason.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        settle(folder, owned)
        with tempfile.TemporaryDirectory(prefix=".saving-", dir=folder) as name:
            made = Path(name) / READY
            made.mkdir()
            content = {**files, LIST: json.dumps([*files]).encode()}
            for file, own in content.items():
                with open(made / file, "wb") as out:
                    out.write(own)
                    out.flush()
                    os.fsync(out.fileno())
            made.rename(folder / READY)
        settle(folder, owned)
    except OSError as error:
        raise RegardError(f"{folder}: could not be written: {said_of(error)}") from error


def settle(folder: Path, owned: Sequence[str] = ()) -> None:
    """Put what `replace_files` left in `.ready`, when it was killed, into its place.

    Several processes may do this at once. Only plain names within the folder are moved.

    Raises:
        RequestError: the folder cannot be written, so that it stays half old and half new.
    """
    ready = folder / READY
    told = _listed(ready)
    if told is None:
        return
    try:
        for name in told:
            with suppress(FileNotFoundError):
                os.replace(ready / name, folder / name)
        if _listed(ready) == told:
            for old in {one for pattern in owned for one in folder.glob(pattern)}:
                if old.name not in told:
                    old.unlink(missing_ok=True)
            (ready / LIST).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            ready.rmdir()
    except OSError as error:
        raise RequestError(
            f"{folder} was being written when that was cut short, and cannot be finished: "
            f"{said_of(error)}"
        ) from error


def _listed(ready: Path) -> list[str] | None:
    """The names in a `.ready` folder; None: there is none, or none of ours."""
    if ready.is_symlink():
        return None
    try:
        told = json.loads((ready / LIST).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    plain = isinstance(told, list) and all(
        isinstance(name, str) and re.fullmatch(r"\w[\w.-]*", name) for name in told
    )
    return told if plain else None


def sweep(folder: Path, names: Iterable[str] = ("",)) -> None:
    """Remove what killed processes left half written in a folder: for who has the folder's lock.

    Args:
        names: of folders within it.
    """
    for name in names:
        for path in (folder / name).glob(".*"):
            if path.name.startswith(".saving-"):
                shutil.rmtree(path, ignore_errors=True)
            elif re.fullmatch(r"\..+\.\d+", path.name) and path.is_file():
                path.unlink(missing_ok=True)
