"""Lines of text files."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from regard.data.files.packing import _opened
from regard.data.problems import Problems
from regard.errors import RequestError

__all__ = ["CHUNK", "LONGEST", "Line", "lines", "lines_of", "raw_lines"]


CHUNK = 512
"""Lines decoded together: enough to sort them by length, few enough to answer soon."""


LONGEST = 1 << 20
"""Bytes of a line; longer ones are refused, so no file needs more memory than this."""


class Line(NamedTuple):
    """A line of input, and why it is refused ("" if it is not)."""

    text: str
    refused: str = ""


def lines_of(read: Callable[[int], bytes]) -> Iterator[Line]:
    r"""Lines as they come, cut at "\n" alone.

    Args:
        read: `readline` of a binary file.
    """
    first = True
    while raw := read(LONGEST):
        refused, rest = "", raw
        while not rest.endswith(b"\n") and (rest := read(LONGEST)):
            refused = f"more than {LONGEST:,} bytes"
        try:
            text = raw.decode("utf-8-sig" if first else "utf-8")
        except UnicodeDecodeError as error:
            text = raw.decode("utf-8", "replace")
            refused = refused or f"not UTF-8 (byte {error.start + 1})"
        first = False
        yield Line("" if len(raw) == LONGEST and refused else text.rstrip("\r\n"), refused)


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
