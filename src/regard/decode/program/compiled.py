"""Instructions with their weights laid out for C: what the plans of decoders and encoders share."""

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor, nn

from regard.decode.program.instructions import (
    MEMORY,
    NAMES,
    CInstruction,
    COperand,
    CProgram,
    CSlot,
    Instruction,
    Lowered,
)
from regard.decode.program.rows import NotLowered
from regard.decode.program.step_values import Host, SlotPlaces
from regard.decode.program.tree import leaves, refs
from regard.native.packed_products import PANEL, PRECISIONS, PackedLinear, in_panels

__all__ = ["CompiledProgram"]

SETTINGS = ("kind", "n", "m", "k", "heads", "before", "columns", "key_at", "value_at", "x")
"""What an instruction has in C as it has it here."""


class CompiledProgram:
    """A lowered program as C reads it. It knows weights, but keeps no model alive.

    Args:
        model: whose program it is.
        lowered: its program as instructions.
        precision: of the weights of products, one of `PRECISIONS`; the rest is float32.

    Raises:
        NotLowered: a node that PyTorch computes would keep the model alive.
    """

    def __init__(self, model: nn.Module, lowered: Lowered, precision: str = "float32") -> None:
        self._held: list[Tensor] = []
        self._precision, self._kind = precision, PRECISIONS.index(precision)
        # Nodes know the model, which they must not keep; instructions know its weights.
        self.constants = _read_by_torch(model, lowered)
        program = replace(lowered.program, nodes=[], constants={})
        slots = [replace(slot, constant=None) for slot in lowered.slots]
        self.lowered = replace(lowered, program=program, slots=slots, code=[])
        self.code = (CInstruction * len(lowered.code))()
        for to, one in zip(self.code, lowered.code, strict=True):
            self._fill(to, one)
        products = [w for one in self.code for w in (one.w, one.w2)]
        widest = max((w.inputs for w in products), default=0)
        self.widest = None if precision == "float32" else widest
        """Inputs of the widest product with narrow weights; None: they are float32."""
        self.slots = (CSlot * len(lowered.slots))()
        self.places = SlotPlaces(len(lowered.slots))
        for number, slot in enumerate(lowered.slots):
            self.slots[number] = CSlot(
                slot.space, slot.width, slot.integers, slot.compact, slot.times
            )
            if slot.constant is not None:
                self.places.put(number, self._hold(slot.constant), slot.width)
        self.pieces = [
            (
                self._piece(begin, end),
                [Host(host.node) for host in lowered.hosts if host.at == end],
            )
            for begin, end in pairwise([0, *_ends(lowered)])
        ]

    def __len__(self) -> int:
        """How many instructions there are."""
        return len(self.code)

    def _piece(self, begin: int, end: int) -> CProgram:
        """The plan of some of the instructions."""
        at = ctypes.addressof(self.code) + begin * ctypes.sizeof(CInstruction)
        slots = ctypes.addressof(self.slots)
        output = self.lowered.output - begin if begin <= self.lowered.output < end else -1
        return CProgram(end - begin, len(self.slots), self._kind, output, at, slots)

    def _fill(self, to: CInstruction, one: Instruction) -> None:
        to.op = NAMES.index(one.op)
        for name in SETTINGS:
            setattr(to, name, getattr(one, name))
        for name, operand in one.operands.items():
            place = COperand(operand.slot, operand.offset, operand.by_step, operand.stride)
            setattr(to, name, place)
        for i, name in enumerate(MEMORY):
            to.memory[i] = one.memory.get(name, -1)
        for name in ("w", "w2"):
            pair = getattr(one, name)
            if pair is not None:
                weight, bias = pair
                setattr(to, name, self._matrix([weight], None if bias is None else [bias]))

    def _matrix(self, weights: Sequence[Tensor], biases: Sequence[Tensor] | None) -> PackedLinear:
        """Weights (out, in) one below the other, in panels of 32 outputs."""
        weight = torch.cat([one.detach() for one in weights])
        out, inputs = weight.shape
        panels, scale = in_panels(weight, self._precision)
        bias = None
        if biases is not None:
            bias = torch.cat([one.detach() for one in biases])
            bias = nn.functional.pad(bias, (0, -out % PANEL))
        return PackedLinear(self._hold(panels), self._hold(scale), self._hold(bias), inputs, out)

    def _hold(self, x: Tensor | None) -> int:
        """The address of a copy that lives as long as this does."""
        if x is None:
            return 0
        self._held.append(x.clone(memory_format=torch.contiguous_format))
        return self._held[-1].data_ptr()


def _ends(lowered: Lowered) -> list[int]:
    """Where the pieces of C end: before each node that PyTorch computes, and at the end."""
    return sorted({host.at for host in lowered.hosts} | {len(lowered.code)})


def _read_by_torch(model: nn.Module, lowered: Lowered) -> dict[int, Tensor]:
    """The constants that PyTorch reads beside C.

    Raises:
        NotLowered: a node would keep the model alive.
    """
    read = {n for host in lowered.hosts for n in host.node.reads}
    for host in lowered.hosts:
        if model in leaves((host.node.args, host.node.kwargs), nn.Module):
            raise NotLowered(f"{host.node.name} of the whole model")
    given = {**lowered.program.constants, **lowered.program.fixed}
    return {n: x for n, x in given.items() if n in read or n in refs(lowered.program.outputs)}
