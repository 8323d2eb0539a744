"""Files that the cells of a data file name: beside it, members of a tar archive, `data:` URLs."""

import base64
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Protocol, runtime_checkable

from regard.data.files.npz import stamp
from regard.data.files.packing import regular
from regard.data.files.registry import unpacked_name
from regard.data.sources import find, places
from regard.errors import RegardError, RequestError

__all__ = [
    "URL",
    "FileError",
    "Somewhere",
    "address_of",
    "content",
    "is_file",
    "only_bytes",
    "place_of",
]

URL = "data:"
HOLDERS = (".npz", ".tar")
"""Endings of files that hold others, named behind a `#`."""

_ONLY_BYTES: ContextVar[bool] = ContextVar("_ONLY_BYTES", default=False)


@contextmanager
def only_bytes() -> Iterator[None]:
    """Within this, in this thread, no address opens a file: `data:` URLs alone are read.

    For inputs of strangers, as a server has them.
    """
    before = _ONLY_BYTES.set(True)
    try:
        yield
    finally:
        _ONLY_BYTES.reset(before)


class FileError(RegardError):
    """What stands at an address cannot be used.

    Args:
        what: the kind in fixed words.
        detail: the particulars.
    """

    def __init__(self, what: str, detail: str) -> None:
        detail = " ".join(detail.splitlines())
        super().__init__(f"{what} ({detail})")
        self.what, self.detail = what, detail


def is_file(place: str, ending: str = "") -> bool:
    """Whether a place is a path with this ending, and not a `data:` URL."""
    return not place.startswith(URL) and place.endswith(ending)


@runtime_checkable
class Somewhere(Protocol):
    """A place that was found: a file, and what of it."""

    @property
    def place(self) -> str: ...
    @property
    def inside(self) -> str: ...


def address_of(one: Somewhere) -> str:
    """The address of a place, wherever it is read from: `/data/sounds.tar#a.wav`."""
    return f"{one.place}#{one.inside}" if one.inside else one.place


def _refuse_paths() -> None:
    if _ONLY_BYTES.get():
        raise RequestError("the bytes of a file were expected, as a data: URL, not where it is")


def place_of(address: str, file: str = "", *, folders: bool = False) -> tuple[str, str]:
    """(the file, the member of it or "") of an address: `a.wav`, `sounds.tar#a.wav`, `data:…`.

    Args:
        address: as it is written.
        file: the data file that it stands in: a path is one beside that file, or a member of the
            tar archive of that file's name. Not given: a path is looked up as data are.
        folders: a path may be that of a folder.

    Raises:
        RequestError: there is no such file.
    """
    if address.startswith(URL):
        return address, ""
    _refuse_paths()
    try:
        return _placed(address, file, folders)
    except RequestError:
        raise
    except (OSError, ValueError) as error:  # a name that no file system has
        why = getattr(error, "strerror", None) or error
        raise RequestError(f"there is no file {address[:80]!r}: {why}") from None


def _placed(address: str, file: str, folders: bool) -> tuple[str, str]:
    path, inside = address, ""
    for ending in HOLDERS:
        if f"{ending}#" in address:
            before, _, inside = address.partition(f"{ending}#")
            path = before + ending
            break
    beside = Path(file).parent / path if file else _found(path)
    if folders and beside.is_dir():
        return str(beside), inside
    if not file:
        return str(regular(beside)), inside
    archive = Path(unpacked_name(file)).with_suffix(".tar")
    if not inside and not beside.is_file() and archive.is_file():
        return str(archive), path
    return str(regular(beside)), inside


def _found(path: str) -> Path:
    """Where a path is that stands in no data file.

    Raises:
        RequestError: nowhere.
    """
    try:
        return find(path)
    except RequestError:
        looked = ", ".join(str(place) for place in places())
        raise RequestError(f"there is no file of that name; looked in {looked}") from None


def content(place: str, inside: str = "") -> bytes:
    """The bytes of a file, or of a member of an archive, which is read in place.

    Raises:
        RequestError: it is not an archive, or has no such member, or none is named.
    """
    if place.startswith(URL):
        try:
            return base64.b64decode(place.partition(",")[2], validate=True)
        except ValueError:
            raise RequestError("a data: URL without base64") from None
    _refuse_paths()
    if not inside:
        if place.endswith(".tar"):
            raise RequestError(f"{place} is an archive: name a member of it, {place}#NAME")
        return Path(place).read_bytes()
    members = _members(place, stamp(place))
    if inside not in members:
        raise RequestError(f"{place} has no {inside!r}")
    start, size = members[inside]
    with open(place, "rb") as file:
        file.seek(start)
        return file.read(size)


@lru_cache(maxsize=64)  # the lanes of a stream each read one
def _members(path: str, changed: tuple[int, ...]) -> dict[str, tuple[int, int]]:
    """Where the files of a tar archive stand in it."""
    try:
        with tarfile.open(path, "r:") as archive:
            found = {m.name: (m.offset_data, m.size) for m in archive if m.isfile()}
        whole = Path(path).stat().st_size
        return {name: at for name, at in found.items() if 0 <= at[0] <= whole and at[1] <= whole}
    except Exception as error:  # of damaged headers tarfile raises more than its own
        raise RequestError(
            f"{path} is no tar archive (zipped ones are not read): {error}"
        ) from None
