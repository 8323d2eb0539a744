"""A program as instructions over rows, for C.

    lowered = lower(folded(program))

Every value is a row of floats for a hypothesis or for a sentence, or a constant. Views change only
how a row is read, and sums of products become one product.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from torch import Tensor, nn

from regard.decode.program import boundary
from regard.decode.program.instructions import (
    GrowingMemory,
    Instruction,
    Leaf,
    Lowered,
    Operand,
    Slot,
    TorchNode,
)
from regard.decode.program.lowering_products import product, side_by_side
from regard.decode.program.recorder import Node
from regard.decode.program.replay import Program
from regard.decode.program.rows import (
    CONSTANT,
    PER_ROW,
    PER_SENTENCE,
    Integers,
    NoTensor,
    NotLowered,
    Parts,
    RowAxis,
    RowValue,
    Sum,
    Symbols,
    packed_axes,
)
from regard.decode.program.slot_sharing import share_slots
from regard.decode.program.tree import Extent, Ref, refs

__all__ = ["HANDLERS", "Lowering", "handles", "lower", "weight_of"]

Handler = Callable[..., Any]
HANDLERS: dict[str, Handler] = {}
"""What lowers a node, by its name without "aten." and overload."""


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Say which nodes a function lowers: it gets the lowering, the node and its arguments."""

    def add(function: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, function))
        return function

    return add


def lower(
    program: Program, *, apart: bool = False, kind: "type[Lowering] | None" = None
) -> Lowered:
    """The instructions of a folded program.

    What C has no instruction for is left to PyTorch, between pieces of C.

    Args:
        apart: inputs side by side are multiplied one by one: as bytes each has a step of its own.
        kind: what lowers it; None: `Lowering`, for the steps of decoders.

    Raises:
        NotLowered: nothing would be left for C, or a part of it has no such form.
    """
    for name in (
        "views",
        "math",
        "operations",
        "experts",
        "past",
        "attention",
    ):  # they know this module
        import_module(f"regard.decode.program.lowering_{name}")
    by_torch: dict[int, str] = {}
    while True:
        try:
            return (kind or Lowering)(program, apart).run(by_torch)
        except NoTensor as error:
            if error.number in by_torch:
                raise NotLowered(str(error)) from error
            by_torch[error.number] = str(error)


class Lowering:
    """The state of lowering one program."""

    def __init__(self, program: Program, apart: bool = False) -> None:
        self.program, self.apart = program, apart
        tokens = program.inputs["tokens"]
        batch, beam = program.shapes[tokens.index]
        step = program.inputs["step"]
        if not all(isinstance(x, Extent) for x in (batch, beam)):
            raise NotLowered("a batch of one size")
        self.symbols = Symbols(
            batch.symbols[0],
            beam.symbols[0],
            step.symbols[0] if isinstance(step, Extent) else None,
        )
        self.code: list[Instruction] = []
        self.slots: list[Slot] = []
        self.hosts: list[TorchNode] = []
        self.entered: dict[int, int] = {}
        self.made: dict[int, int] = {}
        self.aliases: dict[int, int] = {}
        self.turned: set[int] = set()
        self.keys: Any = None
        self.words: Any = None
        self.past: Any = None
        self.caches: dict[str, GrowingMemory] = {}
        self.block = 0
        self.products = 0
        self.values: dict[int, Any] = {}
        self.uses = Counter(n for node in program.nodes for n in node.reads)
        self.uses.update(refs(program.outputs))
        for number, x in program.constants.items():
            axes = [
                RowAxis("f" if n != 1 else "1", n, s)
                for n, s in zip(x.shape, x.stride(), strict=True)
            ]
            self.values[number] = RowValue(CONSTANT, x, tuple(axes))
        for number in refs((tokens, program.inputs["carried"])):
            boundary.enter(self, number, PER_ROW)
        for number in refs(program.inputs["memories"]):
            boundary.enter(self, number, PER_SENTENCE)
        self.tensors = {*self.entered, *program.constants}

    def run(self, by_torch: dict[int, str]) -> Lowered:
        """Lower all nodes, then what they give.

        Args:
            by_torch: values whose nodes PyTorch computes, each with the reason.

        Raises:
            NoTensor: PyTorch needs a value that C cannot give as a tensor.
        """
        for node in self.program.nodes:
            forced = [by_torch[n] for n in node.makes if n in by_torch]
            if forced:
                boundary.host(self, node, forced[0])
                continue
            before = self._state()
            try:
                self._lower(node)
            except NotLowered as error:
                self._restore(before)
                self.host(node, str(error))
        self.leave_all()
        share_slots(self.code, self.slots)
        read = self._read()
        return Lowered(
            self.program,
            self.symbols,
            self.code,
            self.slots,
            {number: slot for number, slot in self.entered.items() if slot in read},
            self.made,
            self.keys,
            self.words,
            self.products,
            self.hosts,
            self.aliases,
            self.caches,
            self.past,
            self.block,
            self.turned,
            self._output(),
        )

    def host(self, node: Node, why: str) -> None:
        """Let PyTorch compute a node."""
        boundary.host(self, node, why)

    def leave_all(self) -> None:
        """Have every output as a tensor."""
        boundary.leave_all(self)

    def of_places(self, table: RowValue, axis: RowAxis, start: int) -> RowValue:
        """The row of a table for the place of each word, where rows are words.

        Args:
            table: from its row `start` on.
            axis: of its rows.
        """
        raise NotLowered("a slice that depends on sizes")

    @property
    def cached(self) -> dict[int, Leaf]:
        """Where the tensors of caches lie in a block's row, by their numbers."""
        return {n: leaf for one in self.caches.values() for n, leaf in one.places}

    def _lower(self, node: Node) -> None:
        name = node.short
        handler = HANDLERS.get(name)
        if handler is None:
            raise NotLowered(name)
        try:
            out = handler(self, node, *node.args, **node.kwargs)
        except (TypeError, AttributeError, KeyError, IndexError, ValueError) as error:
            raise NotLowered(f"{name} of this form ({type(error).__name__}: {error})") from error
        if out is not None:
            self.put(node.out, out)

    def _output(self) -> int:
        """The product that makes the logits, which nothing else reads; -1: there is none."""
        logits = self.program.outputs.get("logits")
        slot = self.made.get(logits.index) if isinstance(logits, Ref) else None
        if slot is None or slot in self.aliases.values() or self.uses[logits.index] > 1:
            return -1
        makers = [
            k
            for k, one in enumerate(self.code)
            if "y" in one.operands and one.operands["y"].slot == slot
        ]
        readers = [
            one
            for one in self.code
            if slot in {o.slot for k, o in one.operands.items() if k != "y"}
        ]
        if len(makers) != 1 or readers or makers[0] != len(self.code) - 1:
            return -1
        last = self.code[-1]
        return makers[0] if last.op == "LINEAR" and not last.kind else -1

    def _state(self) -> Any:
        sizes = len(self.code), len(self.slots)
        return sizes, dict(self.values), (self.keys, self.words, self.products)

    def _restore(self, state: Any) -> None:
        """Forget what a node has left that could not be lowered to its end."""
        (code, slots), self.values, (self.keys, self.words, self.products) = state
        del self.code[code:], self.slots[slots:]

    def _read(self) -> set[int]:
        """The slots that instructions name; the others need no place."""
        named: set[int] = set()
        for one in self.code:
            named |= {o.slot for o in one.operands.values()} | set(one.memory.values())
        for number in set(range(len(self.slots))) - named:
            self.slots[number].width = 0
        return named

    # Slots

    def slot(self, width: int, space: int = PER_ROW, **more: Any) -> int:
        """A new slot."""
        self.slots.append(Slot(space, width, **more))
        return len(self.slots) - 1

    def fresh(self, width: int, axes: Sequence[RowAxis], space: int = PER_ROW) -> RowValue:
        """A value that is a new slot of the work space."""
        return RowValue(space, self.slot(width, space), packed_axes(axes), whole=True)

    # Values

    def get(self, ref: Any, *, lazy: bool = False) -> Any:
        """The value of a `Ref`; computed, unless `lazy`."""
        number = ref.index if isinstance(ref, Ref) else ref
        value = self.values[number]
        if value is None:
            raise NotLowered(
                f"a value of {self.program.dtypes[number]}, or with its axes elsewhere"
            )
        if isinstance(value, Sum | Parts) and not lazy:
            value = self.values[number] = self.solid(value)
        return value

    def rows(self, ref: Any) -> RowValue:
        """The same for what must be rows of floats."""
        value = self.get(ref)
        if not isinstance(value, RowValue):
            kind = "integers" if isinstance(value, Integers) else "numbers by keys"
            raise NotLowered(f"{kind} in the place of floats")
        return value

    def constant(self, ref: Any) -> Tensor:
        """The tensor of a constant, laid out row by row.

        A constant may be seen through a view: then it is made of its storage.
        """
        value = self.values[ref.index]
        if not isinstance(value, RowValue) or value.space != CONSTANT or value.by_step:
            raise NotLowered("weights that are no constant")
        sizes, strides = [a.size for a in value.axes], [a.stride for a in value.axes]
        x: Tensor = value.slot
        return x.as_strided(sizes, strides, x.storage_offset() + value.offset).detach()

    def put(self, out: Any, value: Any) -> None:
        """Keep what a node makes."""
        if isinstance(out, Ref):
            self.values[out.index] = value
        else:
            for one, x in zip(out, value, strict=True):
                self.put(one, x)

    def once(self, ref: Any) -> bool:
        """Whether one node alone reads it."""
        return self.uses[ref.index] == 1

    def shape(self, node: Node) -> Any:
        """The shape of what a node makes."""
        return self.program.shapes[node.out.index]

    def axes(self, node: Node) -> tuple[RowAxis, ...]:
        """Its axes."""
        return self.symbols.axes(self.shape(node))

    # Instructions

    def emit(self, op: str, **given: Any) -> None:
        """Add an instruction; y, z, a, b and c are operands."""
        operands = {k: given.pop(k) for k in "yzabc" if k in given}
        self.code.append(Instruction(op, operands, **given))

    def operand(self, value: RowValue) -> Operand:
        """How an instruction reads rows; those whose features are no axis are copied."""
        stride = value.flat()
        if stride is None:
            value, stride = self.copied(value), 1
        if value.space == CONSTANT:
            value = self._constant_slot(value)
        return Operand(value.slot, value.offset, value.by_step, stride)

    def straight(self, value: RowValue) -> RowValue:
        """The same with its features behind each other."""
        return value if value.flat() == 1 else self.copied(value)

    def _constant_slot(self, value: RowValue) -> RowValue:
        x: Tensor = value.slot
        if not x.is_contiguous():
            raise NotLowered("a constant that is not laid out row by row")
        slot = self.slot(x.numel(), CONSTANT, constant=x)
        return replace(value, slot=slot)

    def constant_rows(self, x: Tensor) -> Operand:
        """An operand of a tensor that is the same for all rows."""
        x = x.detach().contiguous().flatten()
        return Operand(self.slot(x.numel(), CONSTANT, constant=x))

    def copied(self, value: RowValue, space: int | None = None) -> RowValue:
        """The same rows with their features behind each other, in a new slot."""
        if space is None:
            space = PER_SENTENCE if value.space == PER_SENTENCE else PER_ROW
        made = self.fresh(value.width, value.axes, space)
        self.copy(value, Operand(made.slot))
        return made

    def copy(self, value: RowValue, to: Operand) -> None:
        """Copy rows, of which at most two axes are apart."""
        own = [axis for axis in value.features if axis.size != 1]
        flat = value.flat()
        if not value.width:
            raise NotLowered("a copy of nothing")
        if flat is not None:
            m, n, k, stride = 1, value.width, 0, flat
        elif len(own) == 2:
            m, n, k, stride = own[0].size, own[1].size, own[0].stride, own[1].stride
        else:
            raise NotLowered(f"a copy of {len(own)} axes")
        if value.space == CONSTANT:
            value = self._constant_slot(value)
        a = Operand(value.slot, value.offset, value.by_step, stride)
        self.emit("COPY", n=n, m=m, k=k, y=to, a=a)

    def solid(self, value: Sum | Parts) -> RowValue:
        """Compute what is not computed yet."""
        return side_by_side(self, value) if isinstance(value, Parts) else product(self, value)


def weight_of(layer: Any) -> Tensor:
    """The weight of a plain layer without a bias, which C applies in the place of calling it."""
    kind: type = type(layer)
    if kind is not nn.Linear or layer.bias is not None or "forward" in vars(layer):
        raise NotLowered(f"a score with a {kind.__name__}")
    weight: Tensor = layer.weight.detach()
    return weight
