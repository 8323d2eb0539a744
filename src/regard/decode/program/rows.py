"""Values of a lowered program: rows of a hypothesis or a sentence, and how they are read.

A tensor (B, W, 2, H) of a step is a row of 2 H floats for each hypothesis. Views change only how a
row is read: its axes and their strides. `Sum` and `Parts` are values that are not computed yet.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from torch import Tensor

from regard.decode.program.tree import Extent

__all__ = [
    "CONSTANT",
    "PER_ROW",
    "PER_SENTENCE",
    "ByKeys",
    "HeadWeights",
    "Integers",
    "NoTensor",
    "NotLowered",
    "Parts",
    "RowAxis",
    "RowValue",
    "Sum",
    "Symbols",
    "packed_axes",
]

PER_ROW, PER_SENTENCE, CONSTANT = range(3)
"""How many rows a value has; as in native/program.h."""


class NotLowered(Exception):
    """C has no instruction for this; says for what, in a clause."""


class NoTensor(NotLowered):
    """C cannot give a value as a tensor; `number` is the value's."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number


@dataclass(frozen=True)
class RowAxis:
    """An axis of a tensor.

    Args:
        label: B (sentences), W (hypotheses of one), R (all hypotheses), S (another size that
            varies), 1 or f (features).
        size, stride: of an axis of features, in a row.
    """

    label: str
    size: Any = 1
    stride: int = 0


@dataclass(frozen=True)
class Symbols:
    """Which symbols of a program are batch, beam and step."""

    batch: int
    beam: int
    step: int | None

    def label(self, size: Any) -> str:
        """What an axis of this size is."""
        if not isinstance(size, Extent):
            return "1" if size == 1 else "f"
        if size.c == 0 and size.a == 1:
            if size.symbols == (self.batch,):
                return "B"
            if size.symbols == (self.beam,):
                return "W"
            if size.symbols == tuple(sorted((self.batch, self.beam))):
                return "R"
        return "S"

    def at_step(self, size: Any) -> bool:
        """Whether a number is that of the step and a constant."""
        return isinstance(size, Extent) and size.a == 1 and size.symbols == (self.step,)

    def axes(self, shape: Any) -> tuple[RowAxis, ...]:
        """The axes of a shape whose features lie behind each other."""
        return packed_axes([RowAxis(self.label(n), n) for n in shape])


def packed_axes(axes: Any) -> tuple[RowAxis, ...]:
    """The same axes with the strides of features that lie behind each other."""
    made, stride = [], 1
    for axis in reversed(axes):
        if axis.label in "f1":
            made.append(replace(axis, stride=stride))
            stride *= axis.size
        else:
            made.append(replace(axis, stride=0))
    return tuple(reversed(made))


@dataclass(frozen=True)
class RowValue:
    """Floats: where they are and how they are read.

    Args:
        slot: its number; of a constant, the tensor.
        offset, by_step: of its first item, offset + by_step * step.
        whole: whether it is a whole slot of the work space.
    """

    space: int
    slot: Any
    axes: tuple[RowAxis, ...]
    offset: int = 0
    by_step: int = 0
    whole: bool = False

    @property
    def features(self) -> list[RowAxis]:
        """The axes of features."""
        return [axis for axis in self.axes if axis.label == "f"]

    @property
    def width(self) -> int:
        """How many floats a row has."""
        n = 1
        for axis in self.features:
            n *= axis.size
        return n

    def flat(self) -> int | None:
        """The stride of all features as one axis; None where they are none."""
        own = [axis for axis in self.features if axis.size != 1]
        for one, next_one in pairwise(own):
            if one.stride != next_one.size * next_one.stride:
                return None
        return own[-1].stride if own else 1


@dataclass(frozen=True)
class Integers:
    """`width` 64-bit integers a row, from `offset` of a slot whose rows have `row`."""

    slot: int
    axes: tuple[RowAxis, ...]
    offset: int = 0
    width: int = 1
    row: int = 1


@dataclass(frozen=True)
class ByKeys:
    """A row with a number for each key of a memory, or for each word that may be written."""

    slot: int


@dataclass(frozen=True)
class HeadWeights:
    """Weights of several heads or of a cache, head by head in each row.

    Args:
        heads_first: the tensor is (B, heads, W, keys); a row of C is one of (B, W).
    """

    slot: int
    heads_first: bool = False


@dataclass(frozen=True)
class Sum:
    """Products and a bias that are added up, and an activation: one product of C.

    Args:
        parts: rows (or `Parts`) and weights (out, in).
        act: 0 for none, else 1 + the unary operation.
    """

    parts: tuple[tuple[Any, Tensor], ...]
    bias: Tensor | None
    axes: tuple[RowAxis, ...]
    act: int = 0


@dataclass(frozen=True)
class Parts:
    """Row values side by side that are not copied yet."""

    values: tuple[RowValue, ...]
    axes: tuple[RowAxis, ...]

    @property
    def width(self) -> int:
        """How many floats all have."""
        return sum(v.width for v in self.values)
