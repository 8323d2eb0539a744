"""Nested values of a recording: tensors become `Ref`s, numbers that follow sizes `Extent`s.

Decodings, memories, masks and arguments of operations are trees of tuples, lists, dicts and
dataclasses. A recording keeps their form, so that a replay gives a function what it was given.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

__all__ = [
    "Extent",
    "Ref",
    "extents",
    "fields_of",
    "is_record",
    "leaves",
    "map_leaves",
    "rebuilt",
    "refs",
    "tensors",
]


@dataclass(frozen=True)
class Ref:
    """A value of a recording, by its number."""

    index: int


@dataclass(frozen=True)
class Extent:
    r"""A number that follows from sizes: :math:`c + a \prod_k s_k`.

    Args:
        c, a: the two coefficients.
        symbols: which sizes are multiplied, by their numbers, in order.
    """

    c: int
    a: int
    symbols: tuple[int, ...]

    def at(self, sizes: Mapping[int, int]) -> int:
        """The number, given the size of each symbol."""
        product = self.a
        for symbol in self.symbols:
            product *= sizes[symbol]
        return self.c + product


_FIELDS: dict[Any, tuple[tuple[str, ...], tuple[str, ...]]] = {}
_RECORDS: dict[Any, bool] = {}


def _fields(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the fields of a dataclass, and of those that are caches; looked up once a class."""
    if kind not in _FIELDS:
        names = [field.name for field in dataclasses.fields(kind)]
        _FIELDS[kind] = (
            tuple(n for n in names if n[0] != "_"),
            tuple(n for n in names if n[0] == "_"),
        )
    return _FIELDS[kind]


def fields_of(x: Any) -> tuple[str, ...]:
    """The fields of a dataclass that make its value; those that begin with "_" are caches."""
    return _fields(type(x))[0]


def _has_caches(x: Any) -> bool:
    return any(getattr(x, name) is not None for name in _fields(type(x))[1])


def is_record(x: Any) -> bool:
    """Whether a value is a dataclass whose fields are to be looked at."""
    kind = type(x)
    if kind not in _RECORDS:
        known = (Ref, Extent, nn.Module, type)
        _RECORDS[kind] = dataclasses.is_dataclass(kind) and not isinstance(x, known)
    return _RECORDS[kind]


def rebuilt(x: Any, values: Mapping[str, Any]) -> Any:
    """A dataclass like `x` with other values, unchecked, and without caches."""
    new = object.__new__(type(x))
    for names in _fields(type(x)):
        for name in names:
            object.__setattr__(new, name, values.get(name))
    return new


def map_leaves(x: Any, change: Callable[[Any], Any]) -> Any:
    """The same tree with every leaf changed."""
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(map_leaves(v, change) for v in x))
    if isinstance(x, list | tuple):  # a torch.Size becomes a tuple
        each = [map_leaves(v, change) for v in x]
        return each if isinstance(x, list) else tuple(each)
    if isinstance(x, dict):
        return {k: map_leaves(v, change) for k, v in x.items()}
    if is_record(x):
        old = {k: getattr(x, k) for k in fields_of(x)}
        new = {k: map_leaves(v, change) for k, v in old.items()}
        same = all(new[k] is v for k, v in old.items()) and not _has_caches(x)
        return x if same else rebuilt(x, new)
    return change(x)


def leaves(x: Any, kind: type) -> list[Any]:
    """All leaves of a tree of one kind, in order."""
    every: list[Any] = []
    _collect(x, kind, every)
    return every


def _collect(x: Any, kind: type, every: list[Any]) -> None:
    if isinstance(x, list | tuple):
        for v in x:
            _collect(v, kind, every)
    elif isinstance(x, dict):
        for v in x.values():
            _collect(v, kind, every)
    elif is_record(x):
        for name in fields_of(x):
            _collect(getattr(x, name), kind, every)
    elif isinstance(x, kind):
        every.append(x)


def refs(x: Any) -> list[int]:
    """The numbers of all `Ref`s of a tree, in order."""
    return [ref.index for ref in leaves(x, Ref)]


def tensors(x: Any) -> list[Tensor]:
    """All tensors of a tree, in order."""
    return leaves(x, Tensor)


def extents(x: Any) -> list[Extent]:
    """All numbers of a tree that follow from sizes, in order."""
    return leaves(x, Extent)
