"""Files of lines, plain or compressed: `.gz` and `.zst`."""

import codecs
import gzip
import io
import stat
import sys
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from io import BufferedIOBase, BufferedReader, FileIO
from pathlib import Path
from typing import Any, NamedTuple, cast

from regard.errors import RegardError, RequestError
from regard.system.extras import install

__all__ = [
    "INFLATED",
    "MAGIC",
    "PACKED",
    "SMALL",
    "Unreadable",
    "as_utf8",
    "check",
    "reading",
    "regular",
    "text_lines",
    "unpacked",
    "unreadable",
    "whole_bytes",
    "whole_text",
    "writing",
    "zstd",
]

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
        yield _Careful(_in_utf8(file))


def _in_utf8(file: Any) -> Any:
    try:
        return as_utf8(file)
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(error) from error


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


class _Converted(io.RawIOBase):
    """A file that is read as other bytes than it has, and closed with this one."""

    def __init__(self, raw: Any) -> None:
        self.raw, self.ready = raw, b""

    @abstractmethod
    def more(self) -> bytes | None:
        """The next bytes, which may be none yet; None at the end."""

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self.raw.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        while not self.ready:
            found = self.more()
            if found is None:
                return 0
            self.ready = found
        count = min(len(buffer), len(self.ready))
        buffer[:count], self.ready = self.ready[:count], self.ready[count:]
        return count


class _Unpacking(_Converted):
    """What frames hold; OSError where one is damaged or ends early."""

    def __init__(self, raw: Any) -> None:
        super().__init__(raw)
        self.frame, self.fed, self.begun = zstd().decompressor(), b"", False

    def more(self) -> bytes | None:
        data = self.fed or self.raw.read(FED)
        if not data:
            if self.begun:
                raise OSError("it ends within a frame")
            return None
        if self.frame.eof:
            self.frame = zstd().decompressor()
        try:
            found: bytes = self.frame.decompress(data)
        except zstd().error as error:
            raise OSError(str(error)) from None
        self.fed = self.frame.unused_data if self.frame.eof else b""
        self.begun = not self.frame.eof
        return found


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
        raise RequestError(f".zst files need zstandard: {install('zstd')}") from None
    return _Zstd(
        lambda: found.ZstdDecompressor().decompressobj(),
        lambda raw, level: found.ZstdCompressor(level=level).stream_writer(raw, closefd=False),
        found.ZstdError,
    )


INFLATED, SMALL = 100, 1 << 26
"""How many times larger than itself a gzip file that is read at once may become, if it becomes more
than this many bytes: texts become 3 to 10 times as large, a file that was made to fill the memory
up to 1,032 times."""


def whole_bytes(path: str | Path) -> bytes:
    """The bytes of a file that is read at once, unpacked where it is packed.

    Raises:
        RequestError: no such file, a damaged one, or one that would fill the memory.
    """
    size = regular(path).stat().st_size
    most = max(SMALL, INFLATED * size)
    try:
        with open(path, "rb") as raw, _unpacked(raw) as file:
            found: bytes = raw.read() if file is raw else file.read(most + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise RequestError(f"{path}: damaged gzip file: {error}") from error
    except OSError as error:
        raise RequestError(f"{path}: damaged file: {error}") from error
    if len(found) > most:
        raise RequestError(
            f"{path}: this packed file of {size:,} bytes unpacks to more than {most:,}; unpack it "
            "yourself if that is meant"
        )
    return found


def whole_text(path: str | Path) -> str:
    """The text of a file that is read at once, in UTF-8, or in UTF-16 with a byte-order mark.

    Raises:
        RequestError: as `whole_bytes`; or it is in neither.
    """
    raw = whole_bytes(path)
    try:
        return raw.decode("utf-16" if raw[:2] in _UTF16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestError(f"{path}: damaged or not UTF-8: {error}") from error


def text_lines(text: str) -> list[str]:
    r"""The lines of a text, cut at "\n" alone, with "\r" at their ends taken off.

    `str.splitlines` also cuts at U+2028, U+0085, vertical tabs and separators, which vocabularies
    and texts have as letters.

    Example:
        >>> text_lines("a\u2028b\r\nc\n")
        ['a\u2028b', 'c']
    """
    found = [line.removesuffix("\r") for line in text.split("\n")]
    return found if found[-1] else found[:-1]


def regular(path: str | Path) -> Path:
    """The path, if there is a file that ends: no folder, no pipe, no device, no loop of links.

    Raises:
        RequestError: what is there instead.
    """
    found = Path(path)
    try:
        mode = found.stat().st_mode
    except FileNotFoundError:
        raise RequestError(f"there is no file {path}") from None
    except OSError as error:  # a loop of links, a folder that may not be entered
        why = (error.strerror or str(error)).lower()
        raise RequestError(f"{path}: a file was expected: {why}") from None
    if not stat.S_ISREG(mode):
        kind = next((said for told, said in _KINDS.items() if told(mode)), "no file")
        raise RequestError(f"{path} is {kind}; a file was expected")
    return found


_KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}


_UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""The byte-order marks of UTF-16, which spreadsheets write."""


class _AsUtf8(_Converted):
    """A file in UTF-16 as UTF-8; what is broken becomes bytes that are no UTF-8 either."""

    def __init__(self, raw: Any) -> None:
        super().__init__(raw)
        self.decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")

    def more(self) -> bytes | None:
        data = self.raw.read(SIZE)
        try:
            text = self.decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise OSError(f"not UTF-16: {error.reason}") from None
        return text.encode("utf-8", "surrogatepass") if data or text else None


def as_utf8(file: Any) -> Any:
    """A binary file with a `peek`; in UTF-8 where its first bytes say UTF-16."""
    if file.peek(2)[:2] in _UTF16:
        return io.BufferedReader(_AsUtf8(file), SIZE)
    return file


def _opened(path: str | Path) -> BufferedIOBase:
    """A binary file, unpacked if its first bytes say gzip or Zstandard, in UTF-8 if UTF-16."""
    if str(path) != "-":
        regular(path)
    raw = sys.stdin.buffer if str(path) == "-" else open(path, "rb")  # noqa: SIM115
    unpacked_file: BufferedIOBase = as_utf8(_unpacked(cast(BufferedReader, raw)))
    return unpacked_file


def _unpacked(file: BufferedReader) -> Any:
    if file.peek(2)[:2] == b"\x1f\x8b":
        zipped = gzip.GzipFile(fileobj=file)
        zipped.myfileobj = cast(FileIO, file)  # closed with it
        return zipped  # its `peek` reads from the first block
    if file.peek(4)[:4] == MAGIC:
        return unpacked(file)
    return file
