"""Where data is: the working directory, then $REGARD_DATA, then what ships with the package."""

import os
from pathlib import Path

from regard.data.files.registry import format_of, refuse_unread
from regard.errors import RequestError, nearest

__all__ = ["SPLITS", "find", "places", "shipped", "splits"]

SPLITS = {"train": ("train",), "dev": ("dev", "valid", "val"), "test": ("test",)}
"""The names of files that a folder may have for each split."""


def shipped() -> Path:
    """The folder of data that comes with the package."""
    return Path(__file__).resolve().parent.parent / "shipped" / "data"


def places() -> list[Path]:
    """Where a relative path is looked up, in order."""
    told = os.environ.get("REGARD_DATA")
    return [Path.cwd(), *([Path(told)] if told else []), shipped()]


def find(path: str | Path) -> Path:
    """The file or folder of that name, or the common part of the names of Moses files.

    Raises:
        RequestError: it is in none of the places.
    """
    given = Path(path).expanduser()
    if str(path) == "-":
        return given
    for place in places():
        candidate = place / given
        if os.path.lexists(candidate) or (candidate.parent.is_dir() and _beginnings(candidate)):
            return candidate
    looked = ", ".join(str(place) for place in places())
    near = nearest(str(path), _known())
    told = "" if os.environ.get("REGARD_DATA") else "; $REGARD_DATA, a folder of data, is not set"
    raise RequestError(f"there is no data at {str(path)!r}: looked in {looked}{told}; {near}")


def splits(folder: Path, *, moses: bool = True) -> dict[str, Path]:
    """The file of each split in a folder: `train.*`, `dev.*` (`valid.*`, `val.*`), `test.*`.

    For Moses files it is their common name (`train` for `train.de` and `train.en`); for pictures a
    folder `train`. A tar file beside a table has what the table names.

    Args:
        moses: whether there may be Moses files; otherwise a file of an unknown ending is a split by
            itself.

    Raises:
        RequestError: the folder has none of them, or two files for one split.
    """
    found: dict[str, Path] = {}
    for split, names in SPLITS.items():
        files = [f for name in names for f in _beginnings(folder / name)]
        single = [f for f in files if format_of(f) != "moses"]
        single = [f for f in single if f.suffix != ".tar"] or single
        single = single or [folder / name for name in names if _has_folders(folder / name)]
        if not (single or moses):
            single = files
        if len(single) > 1:
            told = " and ".join(f.name for f in single)
            raise RequestError(f"{folder}: {told} could be {split!r}: name one as data.{split}")
        if single:
            found[split] = single[0]
        elif files:
            if len(files) == 1:
                refuse_unread(files[0])
            found[split] = folder / files[0].name.split(".")[0]
    if not found:
        there = sorted(f.name for f in folder.glob("*") if format_of(f) != "moses")
        some = f"{', '.join(there[:6])}{', …' * (len(there) > 6)}"
        told = f"; there are {some}: name one file, or call them so" if there else ""
        other = _hidden(folder)
        told += f"; it hides {other}: give that path, or work in another directory" if other else ""
        raise RequestError(f"{folder} has no train.*, dev.* or test.* file{told}")
    return found


def _hidden(folder: Path) -> Path | None:
    """A folder of the same name in a later one of the `places`."""
    rest = places()
    while rest:
        place = rest.pop(0)
        if folder.is_relative_to(place):
            own = folder.relative_to(place)
            return next((other / own for other in rest if (other / own).is_dir()), None)
    return None


def _beginnings(path: Path) -> list[Path]:
    """The files `path.<something>` beside each other, sorted.

    Whatever has the name of a data file counts: a folder or a pipe of that name is said to be one
    when it is read, not passed over.
    """
    name = path.name + "."
    beside = (f for f in path.parent.glob("*") if f.name.startswith(name))
    return sorted(f for f in beside if _is_file(f) or format_of(f) != "moses")


def _has_folders(path: Path) -> bool:
    return path.is_dir() and any(one.is_dir() for one in path.iterdir())


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a loop of links
        return False


def _known() -> list[str]:
    """Names of data folders, for a helpful error."""
    names = []
    for place in places()[1:]:
        if place.is_dir():
            names += [str(f.parent.relative_to(place)) for f in place.glob("*/train.*")]
            names += [str(f.parent.relative_to(place)) for f in place.glob("*/*/train.*")]
            names += [str(f.parent.relative_to(place)) for f in place.glob("*/test.*")]
    return names
