"""Reading a header that may lie: each field is what it should be, or a sentence says it is not."""

import math
from collections.abc import Sequence
from typing import Any

from regard.errors import RequestError

__all__ = ["Checked"]

_LARGEST = 1 << 31


class Checked:
    """An object of JSON; fields that are not there are empty."""

    def __init__(self, value: Any, what: str) -> None:
        self.what = what
        if not isinstance(value, dict):
            raise RequestError(f"{what} is damaged: expected an object")
        self._value = value

    def get(self, name: str) -> Any:
        """As it is, or None."""
        return self._value.get(name)

    def claim(self, true: bool, name: str) -> None:
        """Refuse the file where something does not hold."""
        if not true:
            raise RequestError(f"{self.what} is damaged: {name!r} cannot be as it says")

    def text(self, name: str) -> str:
        value = self.get(name)
        self.claim(value is None or isinstance(value, str), name)
        return value or ""

    def one_of(self, name: str, known: Sequence[str]) -> str:
        value = self.text(name)
        self.claim(value in known, name)
        return value

    def number(self, name: str) -> float | None:
        value = self.get(name)
        self.claim(value is None or (_is_number(value) and math.isfinite(value)), name)
        return None if value is None else float(value)

    def count(self, name: str) -> int:
        value = self.get(name)
        self.claim(value is None or _is_count(value), name)
        return value or 0

    def whole(self, name: str) -> list[int]:
        return self._list(name, _is_count)

    def strings(self, name: str) -> list[str]:
        return self._list(name, lambda v: isinstance(v, str))

    def floats(self, name: str) -> list[float]:
        return self._list(name, lambda v: _is_number(v) and math.isfinite(v))

    def pair(self, name: str) -> tuple[int, int] | None:
        value = self.whole(name)
        self.claim(len(value) in (0, 2), name)
        return (value[0], value[1]) if value else None

    def pairs(self, name: str) -> list[tuple[int, int]]:
        found = self.nested(name)
        self.claim(all(len(v) == 2 for v in found), name)
        return [(v[0], v[1]) for v in found]

    def nested(self, name: str) -> list[list[int]]:
        return self._list(name, lambda v: isinstance(v, list) and all(map(_is_count, v)))

    def rows(self, name: str) -> list["Checked"]:
        found = self._list(name, lambda v: isinstance(v, dict))
        return [Checked(v, f"{self.what}, {name} {i}") for i, v in enumerate(found)]

    def counts(self, name: str) -> dict[str, int]:
        value = self.get(name) or {}
        self.claim(isinstance(value, dict) and all(map(_is_count, value.values())), name)
        return dict(value)

    def numbers(self, name: str) -> dict[str, list[float]]:
        value = self.get(name) or {}
        self.claim(isinstance(value, dict), name)
        for row in value.values():
            self.claim(isinstance(row, list) and all(map(_is_number, row)), name)
        return dict(value)

    def shape(self, name: str) -> tuple[int, int, int]:
        value = self.whole(name)
        self.claim(len(value) == 3, name)
        return value[0], value[1], value[2]

    def place(self, name: str, size: int) -> list[int]:
        """Where a blob begins and how long it is, inside `size` bytes."""
        value = self.whole(name)
        self.claim(len(value) == 2 and value[0] + value[1] <= size, name)
        return value

    def places(self, name: str, size: int, count: int) -> list[list[int]]:
        found = self.nested(name)
        inside = all(len(v) == 2 and v[0] + v[1] <= size for v in found)
        self.claim(len(found) == count and inside, name)
        return found

    def _list(self, name: str, good: Any) -> list[Any]:
        value = self.get(name)
        self.claim(value is None or (isinstance(value, list) and all(map(good, value))), name)
        return value or []


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
