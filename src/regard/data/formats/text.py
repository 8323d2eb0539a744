"""Lines of a text file, gzip or not, from a path or from standard input."""

import gzip
import stat
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader, FileIO
from pathlib import Path
from typing import cast

from regard.data.problems import Problems
from regard.errors import RequestError, nearest

__all__ = ["Column", "Row", "check_columns", "lines", "raw_lines", "regular"]

LONGEST = 1 << 20
"""Bytes of a line; no example of any task is longer, and no file needs more memory than this."""

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
        RequestError: no such file, or a gzip file that is damaged.
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


def raw_lines(path: str | Path) -> Iterator[bytes]:
    """The bytes of each line with its end, however long it is; unzipped, as `lines` counts them."""
    with _opened(path) as file:
        yield from file


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
    """A binary file; unzipped if its first two bytes say gzip, whatever its name."""
    if str(path) != "-":
        regular(path)
    raw = sys.stdin.buffer if str(path) == "-" else open(path, "rb")  # noqa: SIM115
    file = cast(BufferedReader, raw)
    if file.peek(2)[:2] == b"\x1f\x8b":
        zipped = gzip.GzipFile(fileobj=file)
        zipped.myfileobj = cast(FileIO, file)  # closed with it
        return zipped
    return file
