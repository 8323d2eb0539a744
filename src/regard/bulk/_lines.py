"""Lines of bytes as inputs; one that is too long or not UTF-8 is refused, and takes no memory."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["CHUNK", "LONGEST", "Line", "lines_of"]

CHUNK = 512
"""Lines decoded together: enough to sort them by length, few enough to answer soon."""

LONGEST = 1 << 20
"""Bytes of a line; longer ones are refused, so that no input needs more memory than this."""


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
