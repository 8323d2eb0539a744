"""Lines of a text file, packed or not, from a path or from standard input."""

import gzip
import stat
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader, BytesIO, FileIO
from pathlib import Path
from typing import cast

from regard.data.formats.zst import MAGIC, unpacked
from regard.data.problems import Problems
from regard.errors import RequestError, nearest

__all__ = [
    "Column", "Row", "check_columns", "lines", "raw_lines", "regular", "whole_bytes",
    "whole_number",
]  # fmt: skip

LONGEST = 1 << 20
"""Bytes of a line; no example of any task is longer, and no file needs more memory than this."""

INFLATED, SMALL = 100, 1 << 26
"""How many times larger than itself a gzip file that is read at once may become, if it becomes more
than so many bytes: texts become 3 to 10 times as large, a file that was made to fill the memory up
to 1,032 times."""

Column = str | int
"""The name of a column, or its number counted from 1."""


@dataclass(frozen=True, slots=True)
class Row:
    """One example as read: its fields, and where it stands."""

    fields: dict[str, str]
    file: str
    line: int


def check_columns(what: str, columns: Mapping[str, Column], known: Sequence[str]) -> None:
    """Refuse columns that a format with the same ones in every file does not have.

    Raises:
        RequestError: naming the column, what it is for, and the nearest that there is.
    """
    for field, column in columns.items():
        if column not in known:
            hint = nearest(str(column), known)
            raise RequestError(f"{what} have no column {column!r} for {field!r}: {hint}")


def lines(path: str | Path, problems: Problems) -> Iterator[tuple[int, str | None]]:
    r"""The number and text of each line, cut at '\n' alone; None for one that is not UTF-8.

    Raises:
        RequestError: no such file, or a packed file that is damaged.
    """
    number = 0
    try:
        with _opened(path) as file:
            while raw := file.readline(LONGEST):
                number += 1
                if len(raw) == LONGEST and not raw.endswith(b"\n"):
                    while (rest := file.readline(LONGEST)) and not rest.endswith(b"\n"):
                        pass
                    problems.add(str(path), number, "too long", f"more than {LONGEST:,} bytes")
                    yield number, None
                    continue
                try:
                    text = raw.rstrip(b"\r\n").decode()
                    yield number, text.removeprefix("\ufeff") if number == 1 else text
                except UnicodeDecodeError as error:
                    problems.add(str(path), number, "not UTF-8", f"byte {error.start + 1}")
                    yield number, None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RequestError(f"{path}: damaged gzip file after line {number}: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise RequestError(f"{path}: damaged file after line {number}: {error}") from error


def raw_lines(path: str | Path) -> Iterator[bytes]:
    """The bytes of each line with its end, however long it is; unzipped, as `lines` counts them."""
    with _opened(path) as file:
        yield from file


def whole_bytes(path: str | Path) -> bytes:
    """The bytes of a file that is read at once, unzipped where it is gzip.

    Raises:
        RequestError: no such file, a damaged gzip file, or one that would fill the memory.
    """
    raw = regular(path).read_bytes()
    if raw[:2] != b"\x1f\x8b":
        return raw
    most = max(SMALL, INFLATED * len(raw))
    try:
        with gzip.GzipFile(fileobj=BytesIO(raw)) as zipped:
            found = zipped.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise RequestError(f"{path}: damaged gzip file: {error}") from error
    if len(found) > most:
        raise RequestError(
            f"{path}: this gzip file of {len(raw):,} bytes unpacks to more than {most:,}; "
            "unpack it yourself if that is meant"
        )
    return found


def whole_number(text: str) -> int | None:
    """The number that up to 18 decimal digits say; None for anything else.

    `int` alone fails at more than 4,300 digits with an error of its own.

    Example:
        >>> whole_number("12"), whole_number("-1"), whole_number("1" * 5000)
        (12, None, None)
    """
    return int(text) if text.isdecimal() and len(text) <= 18 else None


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


def _opened(path: str | Path) -> BufferedIOBase:
    """A binary file; unpacked if its first bytes say gzip or Zstandard, whatever its name."""
    if str(path) != "-":
        regular(path)
    raw = sys.stdin.buffer if str(path) == "-" else open(path, "rb")  # noqa: SIM115
    file = cast(BufferedReader, raw)
    if file.peek(2)[:2] == b"\x1f\x8b":
        zipped = gzip.GzipFile(fileobj=file)
        zipped.myfileobj = cast(FileIO, file)  # closed with it
        return zipped
    if file.peek(4)[:4] == MAGIC:
        return unpacked(file)
    return file
