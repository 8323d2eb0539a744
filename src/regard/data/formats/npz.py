"""Arrays of an `.npz` file: an example for each place of them, a column for each array.

An array of pictures (N, H, W) or (N, H, W, 3) gives addresses (`digits.npz#17`, see
`regard.data.images.images`), an array (N,) its values as text.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from regard.data.files.npz import IMAGES, arrays
from regard.data.files.packing import regular
from regard.data.files.row import Column, Row
from regard.data.formats.base import check_columns
from regard.data.problems import Problems
from regard.errors import RequestError

__all__ = ["names", "read"]

USUAL = {"image": "images", "label": "labels"}
"""The array of a field where none of its own name is there."""


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read the examples of an `.npz` file, numbered from 1; see `formats.read`.

    Raises:
        RequestError: it is no such file, or has no such array.
    """
    found = _arrays(path)
    chosen = {f: c if c in found else USUAL.get(str(c), c) for f, c in columns.items()}
    check_columns(f"{path}: .npz files", chosen, list(found))
    used = {field: found[str(name)] for field, name in chosen.items()}
    sizes = {str(name): len(found[str(name)]) for name in chosen.values()}
    if len(set(sizes.values())) > 1:
        raise RequestError(f"{path}: arrays of one length were expected, got {sizes}")
    file = Path(str(path)).name
    before = {f: "" if n == IMAGES else f"{n}/" for f, n in chosen.items()}
    for i in range(min(sizes.values(), default=0)):
        cells = {f: str(a[i]) if a.ndim == 1 else f"{file}#{before[f]}{i}" for f, a in used.items()}
        yield Row(cells, str(path), i + 1)
    problems.report(str(path))


def names(path: Path) -> dict[str, Column]:
    """The fields that its arrays are usually for, by their names there."""
    found = _arrays(path)
    fields = {array: field for field, array in USUAL.items()}
    return {fields.get(name, name): name for name in found}


def _arrays(path: Any) -> dict[str, NDArray[Any]]:
    if isinstance(path, Mapping) or str(path) == "-":
        raise RequestError("an .npz file is one file with arrays: expected its path")
    return {n: a for n, a in arrays(str(regular(path))).items() if a.ndim in (1, 3, 4)}
