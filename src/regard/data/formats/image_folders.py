"""Pictures in folders that are named by their labels: `train/cat/1.png`, in a folder or a tar file.

The columns are `image`, the address of the picture (see `regard.data.images.images`), and `label`,
the folder that it is in. What has another ending than a picture's is passed over.
"""

import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from regard.data.files.packing import regular
from regard.data.files.row import Column, Row
from regard.data.formats.base import check_columns
from regard.data.problems import Problems
from regard.data.text.normal_form import composed
from regard.errors import RequestError

__all__ = ["COLUMNS", "read", "read_tar"]

COLUMNS = ("image", "label")
ENDINGS = (".png", ".jpg", ".jpeg", ".webp")


def read(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read a folder of folders of pictures, in the order of their names; see `formats.read`."""
    top = _path(path)
    check_columns("folders of pictures", columns, COLUMNS)
    if not top.is_dir():
        raise RequestError(f"{path}: a folder of folders of pictures was expected")
    names = []
    for folder, below, files in os.walk(top):
        below.sort(key=composed)  # the same order whatever normal form a file system has
        inside = Path(folder).relative_to(top)
        names += [(inside / name).as_posix() for name in sorted(files, key=composed)]
    # Addresses are those of files beside the folder.
    yield from _rows(names, str(top), columns, problems, f"{top.name}/")


def read_tar(
    path: str | Path | Mapping[str, str | Path],
    columns: Mapping[str, Column],
    *,
    header: bool = True,
    problems: Problems,
) -> Iterator[Row]:
    """Read the pictures of a tar file, in its order; see `formats.read`."""
    file = regular(_path(path))
    check_columns("tar files of pictures", columns, COLUMNS)
    try:
        with tarfile.open(file, "r:") as archive:
            names = [member.name for member in archive if member.isfile()]
    except Exception as error:  # of damaged headers tarfile raises more than its own
        raise RequestError(
            f"{path} is no tar archive (zipped ones are not read): {error}"
        ) from None
    yield from _rows(names, str(file), columns, problems, f"{file.name}#")


def _rows(
    names: list[str], file: str, columns: Mapping[str, Column], problems: Problems, before: str
) -> Iterator[Row]:
    """A row for each picture; its number is that of its line."""
    pictures = [name for name in names if name.lower().endswith(ENDINGS)]
    for number, name in enumerate(pictures, 1):
        label = PurePosixPath(name).parent.name
        if not label:
            problems.add(file, number, "no label", f"{name} is in no folder")
            continue
        cells = {"image": before + name, "label": label}
        yield Row({field: cells[str(column)] for field, column in columns.items()}, file, number)
    problems.report(file)


def _path(path: str | Path | Mapping[str, str | Path]) -> Path:
    if isinstance(path, Mapping) or str(path) == "-":
        raise RequestError("pictures with their labels are one folder or one tar file")
    return Path(path)
