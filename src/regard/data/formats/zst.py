"""Files that Zstandard packed (`.zst`): Python's own reader from 3.14, else the package's."""

import io
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from regard.errors import RequestError

__all__ = ["MAGIC", "unpacked", "zstd"]

MAGIC = b"\x28\xb5\x2f\xfd"
"""What a frame begins with."""
SIZE = 1 << 17
FED = 1 << 11
"""Bytes unpacked at once: they become 64 MiB at the most."""


def unpacked(raw: Any) -> io.BufferedReader:
    """What a file of frames holds, one behind another, unpacked while it is read.

    Args:
        raw: a binary file, closed with what is returned.

    Raises:
        RequestError: nothing is installed that reads it.
    """
    return io.BufferedReader(_Unpacking(raw), SIZE)


class _Unpacking(io.RawIOBase):
    """What frames hold; OSError where one is damaged or ends early."""

    def __init__(self, raw: Any) -> None:
        self.raw, self.frame, self.ready, self.fed = raw, zstd().decompressor(), b"", b""
        self.begun = False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self.raw.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        while not self.ready:
            data = self.fed or self.raw.read(FED)
            if not data:
                if self.begun:
                    raise OSError("it ends within a frame")
                return 0
            if self.frame.eof:
                self.frame = zstd().decompressor()
            try:
                self.ready = self.frame.decompress(data)
            except zstd().error as error:
                raise OSError(str(error)) from None
            self.fed = self.frame.unused_data if self.frame.eof else b""
            self.begun = not self.frame.eof
        count = min(len(buffer), len(self.ready))
        buffer[:count], self.ready = self.ready[:count], self.ready[count:]
        return count


class _Zstd(NamedTuple):
    """What reads and writes `.zst`; the writer takes a file and a level."""

    decompressor: Callable[[], Any]
    writer: Callable[[Any, int], Any]
    error: type[Exception]


@cache
def zstd() -> _Zstd:
    """Python's own from 3.14, else the package `zstandard`.

    Raises:
        RequestError: neither is there.
    """
    try:
        own = import_module("compression.zstd")
        return _Zstd(
            own.ZstdDecompressor,
            lambda raw, level: own.ZstdFile(raw, "w", level=level),
            own.ZstdError,
        )
    except ImportError:
        pass
    try:
        found = import_module("zstandard")
    except ImportError:
        raise RequestError(".zst files need zstandard: pip install 'regard[zstd]'") from None
    return _Zstd(
        lambda: found.ZstdDecompressor().decompressobj(),
        lambda raw, level: found.ZstdCompressor(level=level).stream_writer(raw, closefd=False),
        found.ZstdError,
    )
