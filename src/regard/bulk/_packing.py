"""Files of lines, plain or compressed: `.gz` and `.zst`."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from regard.data.formats.zst import unpacked, zstd
from regard.errors import RegardError

__all__ = ["PACKED", "Unreadable", "check", "reading", "unreadable", "writing"]

PACKED = (".gz", ".zst")
"""How names of compressed files end."""

LEVEL = {".gz": 6, ".zst": 3}


class Unreadable(RegardError):
    """A shard that cannot be read to its end: the others can."""


def check(suffix: str) -> None:
    """See that such files can be read here.

    Raises:
        RequestError: nothing is installed that reads `.zst`.
    """
    if suffix == ".zst":
        zstd()


@contextmanager
def reading(path: Path, suffix: str) -> Iterator["_Careful"]:
    """A binary file, unpacked while it is read.

    Raises:
        Unreadable: it is not there, damaged, or ends early.
    """
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(open(path, "rb"))
        except OSError as error:
            raise unreadable(error) from error
        file: Any = raw
        if suffix == ".gz":
            file = stack.enter_context(gzip.GzipFile(fileobj=raw))
        elif suffix == ".zst":
            file = stack.enter_context(unpacked(raw))
        yield _Careful(file)


class _Careful:
    """A file whose errors say that it is the shard that cannot be read."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self.file = file

    def readline(self, size: int = -1) -> bytes:
        try:
            return self.file.readline(size)
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(error) from error


def unreadable(error: Exception) -> Unreadable:
    """What is wrong with a shard, in one sentence."""
    if isinstance(error, FileNotFoundError):
        return Unreadable("it is not there any more")
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    damaged = "" if isinstance(error, OSError) and error.errno else "damaged or cut off: "
    return Unreadable(f"could not be read: {damaged}{' '.join(said.lower().split())}")


@contextmanager
def writing(path: Path, suffix: str) -> Iterator[Any]:
    """A new binary file, packed while it is written; the same bytes give the same file."""
    with open(path, "wb") as raw:
        if suffix == ".gz":
            with gzip.GzipFile("", "wb", LEVEL[suffix], fileobj=raw, mtime=0) as packed:
                yield packed
        elif suffix == ".zst":
            with zstd().writer(raw, LEVEL[suffix]) as packed:
                yield packed
        else:
            yield raw
