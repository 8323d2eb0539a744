"""The arrays of an `.npz` file, read once for all who ask."""

import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RequestError

__all__ = ["IMAGES", "arrays"]

IMAGES = "images"
"""The array that a number alone is a place in, where an address names none."""


def arrays(path: str) -> dict[str, NDArray[Any]]:
    """The arrays of an `.npz` file; pickled objects are refused.

    Raises:
        RequestError: it is none.
    """
    return _arrays(path, Path(path).stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _arrays(path: str, changed: int) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise RequestError(f"{path} is no .npz file of plain arrays: {error}") from None
