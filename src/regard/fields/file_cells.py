"""Fields whose cells name files, as pictures and sounds: what they share."""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from copy import copy
from typing import Any, Protocol, TypeVar, runtime_checkable

from regard.data.addresses import FileError
from regard.fields.base import Bad, Field

__all__ = ["AddressedField", "Cache"]


@runtime_checkable
class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=_Sized)


class Cache:
    """Arrays that were decoded, kept as long as there is room; columns of one split share it.

    Args:
        room: bytes of all that are kept; what is beyond is decoded again.

    Example:
        >>> import numpy as np
        >>> cache, made = Cache(8), []
        >>> read = lambda key: made.append(key) or np.zeros(5, np.uint8)
        >>> for key in "aabb":
        ...     _ = cache.get(key, read)
        >>> made
        ['a', 'b', 'b']
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self._kept: dict[Hashable, Any] = {}

    def get(self, key: Any, make: Callable[[Any], T]) -> T:
        """What is kept of `key`, or `make(key)`."""
        found: T | None = self._kept.get(key)
        if found is None:
            found = make(key)
            if found.nbytes <= self.room:
                self.room -= found.nbytes
                self._kept[key] = found
        return found


class AddressedField(Field):
    """A field whose cells are addresses of files; see `regard.data.addresses`."""

    room: int
    """Bytes of what was decoded that a column keeps."""
    _file = ""
    """The data file that the cells stand in."""

    def once(self) -> "AddressedField":
        """This field for examples that are read once in a pass: nothing decoded is kept."""
        made = copy(self)
        made.room = 0
        return made

    def beside(self, file: str) -> "AddressedField":
        """This field for cells of a data file: their paths begin at its folder."""
        made = copy(self)
        made._file = file
        return made

    @abstractmethod
    def found(self, address: str) -> Any:
        """What a cell names; it is decoded once, to know that it can be.

        Raises:
            FileError: there is no such file, or it cannot be used.
        """

    def read(self, cell: str, row: Mapping[str, Any]) -> Any:
        """What the cell names; see `found`."""
        address = cell.strip()
        if not address:
            raise Bad("empty")
        try:
            return self.found(address)
        except FileError as error:
            short = cell if len(cell) <= 80 else f"{cell[:60]}…"
            raise Bad(error.what, f"{short}: {error.detail}") from None
