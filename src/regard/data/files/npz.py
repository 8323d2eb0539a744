"""The arrays of an `.npz` file, read once for all who ask."""

import io
import math
import os
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError

__all__ = ["IMAGES", "arrays", "plain_arrays", "stamp"]

IMAGES = "images"
"""The array that a number alone is a place in, where an address names none."""
INFLATED, SMALL = 200, 1 << 28
"""How many times larger than itself a file may become when it is unpacked, if it becomes more than
this many bytes; deflate can make it up to 1,032 times."""


def arrays(path: str) -> dict[str, NDArray[Any]]:
    """The arrays of an `.npz` file, kept for the next who asks; pickled objects are refused.

    Raises:
        RequestError: it is not an archive of arrays.
    """
    return _arrays(path, stamp(path))


def stamp(path: str) -> tuple[int, ...]:
    """What a file looks like from outside; the time alone may stand still or jump back."""
    found = Path(path).stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


@lru_cache(maxsize=4)
def _arrays(path: str, changed: tuple[int, ...]) -> dict[str, NDArray[Any]]:
    try:
        return plain_arrays(path)
    except ValueError as error:
        raise RequestError(f"{path} is no .npz file of plain arrays: {error}") from None


def plain_arrays(file: str | Path | io.BufferedReader) -> dict[str, NDArray[Any]]:
    """The arrays of an `.npz` file. No memory is taken before the file is known to have as much.

    Raises:
        ValueError: what is wrong with it: no archive, pickled objects, an array whose header claims
            more than is there, text in no encoding, a file that was made to fill the memory.
    """
    try:
        with ZipFile(file) as archive:
            members = [one for one in archive.infolist() if one.filename.endswith(".npy")]
            total, packed = sum(one.file_size for one in members), _size(file)
            if total > max(SMALL, INFLATED * packed):
                raise ValueError(f"its {packed:,} bytes are said to unpack to {total:,}")
            return {one.filename.removesuffix(".npy"): _array(archive, one) for one in members}
    except ValueError:
        raise
    except Exception as error:  # of damaged bytes zipfile, zlib and NumPy raise nearly anything
        raise ValueError(str(error) or type(error).__name__) from None


def _size(file: str | Path | io.BufferedReader) -> int:
    return os.stat(file.fileno() if isinstance(file, io.BufferedReader) else file).st_size


def _array(archive: ZipFile, member: ZipInfo) -> NDArray[Any]:
    """One array; NumPy would make room for all that its header claims."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        one = np.lib.format.read_array_header_1_0
        shape, _, dtype = (one if version == (1, 0) else np.lib.format.read_array_header_2_0)(file)
    if (size := math.prod(shape) * dtype.itemsize) > member.file_size or min(shape, default=0) < 0:
        raise ValueError(
            f"{member.filename} says that it is {shape} of {dtype}, {size:,} bytes, and has "
            f"{member.file_size:,}"
        )
    with archive.open(member) as file:
        found: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    if dtype.kind == "U":  # four bytes a character, and any number may stand in them
        numbers = np.ascontiguousarray(found).reshape(-1).view("=u4" if dtype.isnative else ">u4")
        if ((numbers > 0x10FFFF) | ((numbers >= 0xD800) & (numbers < 0xE000))).any():
            raise ValueError(f"{member.filename} has text in no encoding")
    return found
