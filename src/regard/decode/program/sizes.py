"""Sizes whose comparisons are written down.

The way through the code of a step may depend on sizes: a table that grows at 256 words, a product
that another function computes from 64 rows on. While a step is recorded, shapes and the number of
the step are `WatchedSize`s. Each comparison with one becomes a `Comparison`, which a replay must
find to come out as it did. A size that becomes a plain number unseen (`int(n)`) has to be the same
in every replay.
"""

import operator
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

__all__ = ["Comparison", "WatchedShape", "WatchedSize", "comparisons"]

FIXED = "fixed"
"""The comparison of a size that became a plain number."""


@dataclass(frozen=True)
class Comparison:
    """A comparison of sizes, and how it came out.

    Args:
        name: of the function in `operator`, or `FIXED`.
        left, right: ints; after unifying, `Extent`s.
        outcome: its result.
    """

    name: str
    left: Any
    right: Any
    outcome: bool

    def holds(self, left: Any, right: Any) -> bool:
        """Whether it comes out the same for other numbers."""
        if self.name == FIXED:
            return bool(left == right)
        return bool(getattr(operator, self.name)(left, right)) is self.outcome


comparisons: ContextVar[list[Comparison] | None] = ContextVar("regard_comparisons", default=None)
"""Where comparisons of this thread or task are written down."""


def _note(name: str, left: int, right: Any, outcome: bool) -> None:
    log = comparisons.get()
    if log is not None and isinstance(right, int | float):
        right = int.__int__(right) if isinstance(right, int) else right
        log.append(Comparison(name, int.__int__(left), right, outcome))


class WatchedSize(int):
    """An int whose comparisons are written down in `comparisons`."""

    def __bool__(self) -> bool:
        outcome = int.__bool__(self)
        _note("ne", self, 0, outcome)
        return outcome

    def __hash__(self) -> int:
        return int.__hash__(self)


class WatchedShape(tuple[int, ...]):
    """A shape of watched sizes, with the methods of `torch.Size` that models call."""

    __slots__ = ()

    def numel(self) -> int:
        """How many elements there are."""
        count: int = WatchedSize(1)
        for size in self:
            count = count * size
        return count

    def __getitem__(self, index: Any) -> Any:
        part: Any = tuple.__getitem__(self, index)
        return WatchedShape(part) if isinstance(index, slice) else part

    def __add__(self, other: Any) -> Any:
        return WatchedShape((*self, *other))


def _comparing(name: str) -> Callable[[int, Any], Any]:
    plain = getattr(int, f"__{name}__")

    def compare(self: int, other: Any) -> Any:
        if isinstance(other, float):
            outcome = getattr(operator, name)(int.__int__(self), other)
        else:
            outcome = plain(self, other)
        if outcome is not NotImplemented:
            _note(name, self, other, bool(outcome))
        return outcome

    return compare


def _counting(name: str) -> Callable[..., Any]:
    plain = getattr(int, f"__{name}__")

    def count(self: int, *others: Any) -> Any:
        result = plain(self, *others)
        return WatchedSize(result) if type(result) is int else result

    return count


def _leaving(name: str) -> Callable[..., Any]:
    plain = getattr(int, f"__{name}__")

    def leave(self: int, *others: Any) -> Any:
        result = plain(self, *others)
        if result is not NotImplemented:
            _note(FIXED, self, self, True)
        return result

    return leave


for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(WatchedSize, f"__{_name}__", _comparing(_name))
for _name in (
    *("add", "sub", "mul", "floordiv", "mod", "radd", "rsub", "rmul", "rfloordiv", "rmod"),
    *("neg", "pos", "abs", "pow", "lshift", "rshift", "and", "or", "xor"),
):
    setattr(WatchedSize, f"__{_name}__", _counting(_name))
for _name in ("int", "float", "truediv", "rtruediv", "divmod", "round", "trunc", "format", "repr"):
    if hasattr(int, f"__{_name}__"):
        setattr(WatchedSize, f"__{_name}__", _leaving(_name))
