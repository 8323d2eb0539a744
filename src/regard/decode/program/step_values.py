"""The tensors of one step of a program, and where they lie."""

import ctypes
import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.decode.program.instructions import CCall, Lowered
from regard.decode.program.recorder import Node
from regard.decode.program.replay import Binding, filler
from regard.decode.program.tree import Extent
from regard.native.gate import expect

__all__ = [
    "Host",
    "MemoryPlaces",
    "ReadyStep",
    "SlotPlaces",
    "StepValues",
    "size_of",
    "weak_references",
]


class Host:
    """A node that PyTorch computes, and what makes its arguments."""

    def __init__(self, node: Node) -> None:
        self.node, self.args, self.kwargs = node, filler(node.args), filler(node.kwargs)


class SlotPlaces:
    """Where the tensors of slots are; keeps them alive."""

    def __init__(self, count: int) -> None:
        self.at, self.apart, self.size = ((ctypes.c_int64 * count)() for _ in range(3))
        self.held: list[Tensor] = []

    def copy(self) -> "SlotPlaces":
        """The same for one more step or batch."""
        made = object.__new__(SlotPlaces)
        made.at, made.apart, made.size = (
            type(one).from_buffer_copy(one) for one in (self.at, self.apart, self.size)
        )
        made.held = [*self.held]
        return made

    def put(self, slot: int, address: int, width: int) -> None:
        """A slot whose rows lie behind each other."""
        self.at[slot], self.apart[slot], self.size[slot] = address, width, width

    def read(self, slot: int, x: Tensor, rows: int, *, borrowed: bool = False) -> None:
        """A slot that is a tensor with `rows` rows; `borrowed`: others keep it alive."""
        given, x = x, x.contiguous()
        if not borrowed or x is not given:
            self.held.append(x)
        address = expect("a value of the step", x, x.dtype, tuple(x.shape))
        self.put(slot, address, x.numel() // max(rows, 1))

    def addresses(self) -> tuple[int, int, int]:
        """Of the three tables."""
        return tuple(map(ctypes.addressof, (self.at, self.apart, self.size)))  # type: ignore[return-value]


class StepValues(dict[int, Tensor]):
    """The tensors of a step by their numbers; views of others are made when they are read."""

    def __init__(self, lowered: Lowered, sizes: dict[int, int], known: dict[int, Tensor]) -> None:
        super().__init__(known)
        self._lowered, self._sizes = lowered, sizes

    def shape(self, number: int) -> list[int]:
        """The shape of a value."""
        return [size_of(n, self._sizes) for n in self._lowered.program.shapes[number]]

    def made(self, number: int) -> Tensor:
        """A new tensor for a value, laid out as C writes it."""
        shape, turned = self.shape(number), number in self._lowered.turned
        if turned:
            shape[1], shape[2] = shape[2], shape[1]
        made = torch.empty(shape, dtype=self._lowered.program.dtypes[number])
        self[number] = made.transpose(1, 2) if turned else made
        return made

    def __missing__(self, number: int) -> Tensor:
        other = self[self._lowered.aliases[number]]
        return self.setdefault(number, other.reshape(self.shape(number)))


@dataclass(frozen=True)
class ReadyStep:
    """A call of C, the tensors that it makes, and what keeps alive what it reads."""

    call: CCall
    values: StepValues
    places: SlotPlaces
    threads: int
    work: Tensor
    held: Any


@dataclass(frozen=True)
class MemoryPlaces:
    """The tensors of memories, their sizes, and where they are."""

    tensors: list[weakref.ref[Tensor]]
    memories: dict[str, weakref.ref[Any]]
    binding: Binding
    places: SlotPlaces
    rooms: dict[Any, int] = field(default_factory=dict)

    def has(self, memories: Any) -> bool:
        """Whether these are its memories, the same objects; False where that is not known."""
        own = self.memories
        return len(own) == len(memories) > 0 and all(
            k in own and own[k]() is x for k, x in memories.items()
        )

    def is_of(self, memories: list[Tensor]) -> bool:
        """Whether these are its memories, the same tensors."""
        if len(memories) != len(self.tensors):
            return False
        return all(ref() is x for ref, x in zip(self.tensors, memories, strict=True))


def weak_references(memories: Any) -> dict[str, weakref.ref[Any]]:
    """The memories by name, not kept alive; none where one cannot be referred to like that."""
    try:
        return {k: weakref.ref(x) for k, x in memories.items()}
    except TypeError:
        return {}


def size_of(n: Any, sizes: dict[int, int]) -> int:
    """A number that may follow from sizes; 0 where there is none."""
    return n.at(sizes) if isinstance(n, Extent) else n or 0
