"""Instructions of `native/program.c`, as Python writes them and as C reads them."""

import ctypes
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from regard.attention import Memory
from regard.decode.program.recorder import Node
from regard.decode.program.replay import Program
from regard.decode.program.rows import Symbols
from regard.native.gate import Function, declare
from regard.native.packed_products import PackedLinear

__all__ = [
    "BINARY",
    "BLOCK",
    "BY_KEYS",
    "BY_PAST",
    "BY_WORDS",
    "GRU_BEFORE",
    "GRU_INSIDE",
    "GRU_KEEP",
    "LONGEST_TABLE",
    "MEMORY",
    "MINIMUM",
    "MOST_FILTERS",
    "NAMES",
    "PAST_BIASED",
    "PAST_ONLY",
    "SCALE",
    "SELECTIONS",
    "SHIFT",
    "STEP",
    "UNARY",
    "CCall",
    "CInstruction",
    "COperand",
    "CProgram",
    "CSlot",
    "GrowingMemory",
    "Instruction",
    "Leaf",
    "Lowered",
    "Operand",
    "Slot",
    "TorchNode",
    "read_slots",
]

NAMES = (
    "GATHER",
    "COPY",
    "LINEAR",
    "BINARY",
    "UNARY",
    "LSTM",
    "GRU",
    "ATTEND_ADDITIVE",
    "ATTEND_COVERED",
    "ATTEND_DOT",
    "NORM",
    "LOG_SOFTMAX",
    "GLU",
    "MIXTURE",
    "COMPARE",
    "FILL",
    "PICK",
    "MASK",
    "EXPERTS",
    "ATTEND_PAST",
    "APPEND",
    "SCORE_DOT",
    "SCORE_PLACES",
    "SCORE_LOCATED",
    "LOWER_AGAIN",
    "SELECT",
    "READ",
    "WHOLE",
    "LOOKUP",
    "CHOOSE",
    "TAKE",
    "TAKE_ID",
    "ATTEND_WITHIN",
)
BLOCK = 16
"""A product reads floats in multiples of this."""
BINARY = {"add": 0, "sub": 1, "mul": 2, "maximum": 3}
MINIMUM = 4
"""Of integers."""
UNARY = {"tanh": 0, "sigmoid": 1, "relu": 2, "silu": 3}
SCALE, SHIFT = 4, 5
GRU_BEFORE, GRU_KEEP, GRU_INSIDE = 1, 2, 4
PAST_ONLY, PAST_BIASED = 1, 2
SELECTIONS = {
    name: kind
    for kind, name in enumerate(
        ("all", "smooth", "at step", "stopped", "predicted", "sparsemax", "entmax", "best")
    )
}
MOST_FILTERS = 64
"""The most filters over weights of a score."""
LONGEST_TABLE = 1024
"""The most distances that a table of ATTEND_PAST tells apart."""
BY_KEYS, BY_WORDS, BY_PAST = -1, -2, -3
MEMORY = ("keys", "packed", "values", "lengths", "weights", "state", "new_state")


@dataclass(frozen=True)
class Operand:
    """Item offset + by_step * step + i * stride of a slot's row; the step of its sentence."""

    slot: int
    offset: int = 0
    by_step: int = 0
    stride: int = 1


@dataclass
class Slot:
    """Where a value is: see native/program.h.

    Args:
        value: the number of an input or output of the program, whose tensor a call brings.
        constant: the tensor of one row for all.
        times: a row has as many parts of this width.
    """

    space: int
    width: int
    integers: bool = False
    compact: bool = False
    value: int | None = None
    constant: Tensor | None = None
    times: int = 1


@dataclass
class Instruction:
    """One instruction: operands, sizes, slots of a memory, and products (weight, bias)."""

    op: str
    operands: dict[str, Operand] = field(default_factory=dict)
    kind: int = 0
    n: int = 0
    m: int = 1
    k: int = 0
    heads: int = 1
    before: int = 0
    columns: int = 0
    key_at: int = 0
    value_at: int = 0
    x: float = 0.0
    memory: dict[str, int] = field(default_factory=dict)
    w: tuple[Tensor, Tensor | None] | None = None
    w2: tuple[Tensor, Tensor | None] | None = None


def read_slots(instruction: Instruction) -> set[int]:
    """The slots from which an instruction multiplies."""
    a = instruction.operands.get("a")
    return {a.slot} if instruction.op in ("LINEAR", "GRU") and a is not None else set()


@dataclass(frozen=True)
class TorchNode:
    """A node that PyTorch computes, between two pieces of C.

    Args:
        at: the instruction before which it is computed.
        why: C has no instruction for it, in a clause.
    """

    at: int
    node: Node
    why: str


@dataclass(frozen=True)
class Leaf:
    """Where a tensor of a cache lies in a block's row: `heads` vectors of `size` floats."""

    at: int
    heads: int
    size: int


@dataclass(frozen=True)
class GrowingMemory:
    """A memory that is carried and grows by a key in each step.

    Args:
        memory: as the program reads it.
        size: how many keys it has then.
        leaves: of its key, value and prepared keys; those that are one tensor have one place.
        numbers: of these in the memory that has grown.
    """

    memory: Memory
    size: Any
    leaves: list[Leaf]
    numbers: list[int]

    @property
    def places(self) -> list[tuple[int, Leaf]]:
        """The place of each number."""
        return list(zip(self.numbers, self.leaves, strict=True))


@dataclass
class Lowered:
    """Instructions, and which tensors are slots of them.

    Args:
        entered: of the number of an input, or of what PyTorch computes, its slot; of those that C
            reads.
        made: of the number of a tensor that C makes, its slot: outputs, and what PyTorch reads.
        hosts: what PyTorch computes, in order.
        aliases: of the number of a tensor, that of another one with the same numbers.
        caches: memories that grow, by their names in `carried`.
        past: how many keys they have then; None: there are none.
        block: how many floats all caches have of a key.
        keys: how many keys the memory has; None: there is no memory.
        words: how many words may be written, where that varies; else None.
        products: multiplications a row.
        turned: tensors whose second and third axes are exchanged in C: it writes (B, W, heads,
            keys) of what is (B, heads, W, keys), and reads memories (B, keys, heads, size).
        output: the instruction that makes the logits, which nothing else reads; -1: there is none.
    """

    program: Program
    symbols: Symbols
    code: list[Instruction]
    slots: list[Slot]
    entered: dict[int, int]
    made: dict[int, int]
    keys: Any = None
    words: Any = None
    products: int = 0
    hosts: list[TorchNode] = field(default_factory=list)
    aliases: dict[int, int] = field(default_factory=dict)
    caches: dict[str, GrowingMemory] = field(default_factory=dict)
    past: Any = None
    block: int = 0
    turned: set[int] = field(default_factory=set)
    output: int = -1


def _numbers(*names: str) -> list[tuple[str, type]]:
    return [(name, ctypes.c_int64) for name in names]


class CSlot(ctypes.Structure):
    """C's `slot`."""

    _fields_ = _numbers("space", "width", "integers", "compact", "times")


class COperand(ctypes.Structure):
    """C's `operand`."""

    _fields_ = _numbers("slot", "offset", "by_step", "stride")


class CInstruction(ctypes.Structure):
    """C's `instruction`."""

    _fields_ = [
        *_numbers("op", "kind", "n", "m", "k", "heads", "before", "columns", "key_at", "value_at"),
        *((name, COperand) for name in "yzabc"),
        ("memory", ctypes.c_int64 * len(MEMORY)),
        ("w", PackedLinear),
        ("w2", PackedLinear),
        ("x", ctypes.c_double),
    ]


class CProgram(ctypes.Structure):
    """C's `program`."""

    _fields_ = _numbers("instructions", "slots", "kind", "output", "code", "slot")


class CCall(ctypes.Structure):
    """C's `program_call`."""

    _fields_ = _numbers(
        "sentences",
        "width",
        "step",
        "keys",
        "words",
        "slots",
        "past",
        "block_width",
        "blocks",
        "block_rows",
        "ancestors",
        "starts",
        "at",
        "apart",
        "size",
        "work",
        "room",
        "texts",
        "spans",
        "first",
        "count",
        "values",
        "ids",
    )


declare("program_slot", CSlot)
declare("program_operand", COperand)
declare("program_instruction", CInstruction)
declare("program", CProgram)
declare("program_call", CCall)
STEP = Function("regard_program_step", "plan: struct plan", "call: struct call", "threads: threads")
