r"""Recurrent layers over whole sequences in C, without gradients; `reading.c` says how.

PyTorch lays out the weights of an LSTM in every call, and a step of a GRU is a dozen small
operations. Here weights are laid out once (`native.kept`), and a layer is one call.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard import native
from regard.native.gate import Function, Struct, declare
from regard.native.packed_products import PANEL, PackedLinear, in_panels

__all__ = ["PackedLayer", "ReadStates", "ReadingOrder", "RecurrentWeights", "read", "supported"]


class _Unit(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("hidden", "lstm", "before", "keep")),
        *((name, PackedLinear) for name in ("input", "gates", "candidate")),
    ]


class _Plan(ctypes.Structure):
    _fields_ = [("directions", ctypes.c_int64), ("unit", _Unit * 2)]


declare("reading_unit", _Unit)
declare("reading_plan", _Plan)
_CALL = Struct(
    "reading_call",
    "sequences = s",
    "steps: long",
    "words = w",
    "rows = r",
    "inputs = e",
    "hidden = h",
    "directions = d",
    "x: f32 [r e]",
    "lengths: i64 [s]",
    "order: i64 [s]",
    "at: i64 [d w]",
    "states: f32 [r d h] out",
    "final: f32 [d s h] out",
    "cells: f32? [d s h] out",
)
_READ = Function("regard_read", "plan: struct plan", "call: struct call", "threads: threads")


@dataclass(frozen=True)
class RecurrentWeights:
    """The weights of one direction of a layer.

    Args:
        weight: of the inputs, (3H, E) for r, z, n of a GRU, (4H, E) for i, f, g, o of an LSTM;
            None: the inputs are products already, (rows, 3H) or (rows, 4H).
        recurrent: the same of the states, (3H, H) or (4H, H).
        biases: of the gates, (3H,) or (4H,) each; they are added up.
        before, keep: where the reset gate of a GRU is, and what z is; see `layers.rnn`.
    """

    weight: Tensor | None
    recurrent: Tensor
    biases: tuple[Tensor, ...] = ()
    before: bool = False
    keep: bool = False

    @property
    def weights(self) -> list[Tensor]:
        """All of them."""
        own = (self.weight, self.recurrent, *self.biases)
        return [weight for weight in own if weight is not None]


@dataclass(frozen=True)
class ReadingOrder:
    """Sequences step by step, the longest first.

    Args:
        lengths: of the sequences in that order, each 1 or more.
        order: which sequence of the batch each is.
        at: for each direction, which row of the inputs each word is.

    Shapes:
        lengths and order (S,), at (directions, words)
    """

    lengths: Tensor
    order: Tensor
    at: Tensor

    @classmethod
    def padded(cls, lengths: Sequence[int], width: int, backward: Sequence[bool]) -> "ReadingOrder":
        """Right-padded sequences, (B, width): read from the first item, or from the last one.

        Args:
            backward: of each direction.
        """
        given = np.asarray(lengths, dtype=np.int64)
        order = np.argsort(-given, kind="stable")
        ordered = given[order]
        step, place = np.nonzero(np.arange(ordered[0])[:, None] < ordered)
        row, last = order[place] * width, ordered[place] - 1
        at = np.stack([row + (last - step if back else step) for back in backward])
        return cls(*(torch.from_numpy(x) for x in (ordered, order, at)))


@dataclass(frozen=True)
class ReadStates:
    """What was read.

    Shapes:
        states (rows, directions, H), zeros in rows of padding; final, and cells of an LSTM
        (directions, sequences, H): after the last step
    """

    states: Tensor
    final: Tensor
    cells: Tensor | None


class PackedLayer:
    """A layer's weights as C reads them: copies in float32.

    Args:
        directions: one or two, of the same kind and size.
        lstm: whether they are LSTMs.
    """

    def __init__(self, directions: Sequence[RecurrentWeights], *, lstm: bool) -> None:
        self.hidden, self.lstm = directions[0].recurrent.shape[1], lstm
        self._held: list[Tensor] = []
        self._plan = _Plan(len(directions))
        blocks = 4 if lstm else 3
        for to, one in zip(self._plan.unit, directions, strict=False):
            recurrent = one.recurrent.split(self.hidden)
            split = 2 if one.before and not lstm else blocks
            to.hidden, to.lstm = self.hidden, lstm
            to.before, to.keep = one.before, one.keep
            if one.weight is not None:
                bias = torch.stack(one.biases).sum(0).split(self.hidden) if one.biases else None
                to.input = self._product(one.weight.split(self.hidden), bias)
            to.gates = self._product(recurrent[:split])
            if split < blocks:
                to.candidate = self._product(recurrent[split:])

    @property
    def plan(self) -> ctypes.Structure:
        """What C reads."""
        return self._plan

    def _product(
        self, gates: Sequence[Tensor], bias: Sequence[Tensor] | None = None
    ) -> PackedLinear:
        """A product for these gates; each has a multiple of 16 outputs and inputs."""
        out, inputs = gates[0].shape
        weight = torch.cat(
            [F.pad(gate.detach(), (0, -inputs % 16, 0, -out % 16)) for gate in gates]
        )
        panels, _ = in_panels(weight, "float32")
        held = [panels]
        if bias is not None:
            wide = torch.cat([F.pad(one.detach(), (0, -out % 16)) for one in bias])
            held.append(F.pad(wide, (0, -len(wide) % PANEL)))
        self._held += held
        addresses = [x.data_ptr() for x in held]
        return PackedLinear(
            addresses[0], 0, addresses[1] if bias is not None else 0, weight.shape[1], len(weight)
        )


def supported(x: Tensor) -> bool:
    """Whether C reads such inputs on this machine: float32 on the CPU, with vector instructions."""
    return (
        x.is_cpu
        and x.dtype == torch.float32
        and native.unavailable_reason(_READ.name) is None
        and native.level() != "portable"
    )


def read(layer: PackedLayer, x: Tensor, given: ReadingOrder) -> ReadStates:
    """All states of all sequences.

    Shapes:
        x (rows, E)
    """
    directions, words = given.at.shape
    sequences, size = len(given.order), layer.hidden
    made = torch.empty if words == len(x) else torch.zeros  # zeros are padding
    states = made(len(x), directions, size)
    final = torch.empty(directions, sequences, size)
    cells = torch.empty_like(final) if layer.lstm else None
    steps = int(given.lengths[0])
    call = _CALL(steps, x.contiguous(), given.lengths, given.order, given.at, states, final, cells)
    _READ(layer.plan, call, native.threads(words * size * size * 8))
    return ReadStates(states, final, cells)
