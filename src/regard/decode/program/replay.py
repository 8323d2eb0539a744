"""A program: the operations of a step, for any sizes. Here it is run by PyTorch.

`run` calls the recorded operations one by one, and gives what `model.step` gives, bit for bit. It
is no faster; it shows that the recording is right, and computes what C does not know.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard.attention import Lengths, Memory
from regard.decode.program.recorder import Node, NotRecorded, inputs_of
from regard.decode.program.shown_weights import ShownAttention
from regard.decode.program.sizes import Comparison
from regard.decode.program.tree import (
    Extent,
    Ref,
    fields_of,
    is_record,
    rebuilt,
)
from regard.protocols import Decoding

Filler = Callable[[Mapping[int, Tensor], Mapping[int, int]], Any]

__all__ = ["Binding", "Program", "filler", "store", "with_lengths"]


@dataclass
class Program:
    """The nodes of a step, whose numbers may follow from sizes.

    Args:
        nodes, inputs, outputs, constants, shapes, dtypes: as of a `Recording`.
        comparisons: which must come out as they did: else the model would take another way.
        fixed: inputs that were the same tensor in all recordings, as `start` makes of weights; a
            replay refuses another one.
        shown: whose weights of attention are outputs, in their order.
    """

    nodes: list[Node]
    inputs: Any
    outputs: Any
    constants: dict[int, Tensor]
    shapes: dict[int, Any]
    dtypes: dict[int, torch.dtype]
    comparisons: list[Comparison] = field(default_factory=list)
    fixed: dict[int, Tensor] = field(default_factory=dict)
    shown: list[ShownAttention] = field(default_factory=list)

    def with_nodes(self, nodes: list[Node]) -> "Program":
        """The same with other nodes."""
        return replace(self, nodes=nodes, constants=dict(self.constants))

    def bind(self, tokens: Tensor, decoding: Decoding) -> tuple[dict[int, int], dict[int, Tensor]]:
        """The size of each symbol, and the tensor of each input.

        Raises:
            NotRecorded: inputs of another structure, dtype or constant size, or sizes with which
                the model would take another way.
        """
        binding = Binding(self)
        given = inputs_of(tokens, decoding)
        given["memories"] = with_lengths(self, self.inputs["memories"], given["memories"])
        binding.match(self.inputs, given, "inputs")
        binding.check()
        return binding.sizes, binding.values

    def run(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One step, as the model's.

        Raises:
            NotRecorded: the program is not for these inputs.
        """
        after = self.outputs_of(*self.bind(tokens, decoding))
        return after["logits"], Decoding(decoding.memories, after["carried"], decoding.step + 1)

    def outputs_of(self, sizes: dict[int, int], inputs: dict[int, Tensor]) -> Any:
        """The outputs for sizes and inputs as `bind` gives them."""
        values = {**inputs, **self.constants}
        for node in self.nodes:
            args, kwargs = filler((node.args, node.kwargs))(values, sizes)
            store(node.out, node.function(*args, **kwargs), values)
        return filler(self.outputs)(values, sizes)


def filler(tree: Any) -> Filler:
    """What makes a node's arguments of values and sizes: the tree is looked at once."""
    return _part(tree) or (lambda values, sizes: tree)


def _part(tree: Any) -> Filler | None:
    """The same; None of a tree that has neither values nor sizes in it."""
    if isinstance(tree, Ref):
        index = tree.index
        return lambda values, sizes: values[index]
    if isinstance(tree, Extent):
        return lambda values, sizes: tree.at(sizes)
    if isinstance(tree, dict):
        named = tree
    elif isinstance(tree, list | tuple):
        named = dict(enumerate(tree))
    elif is_record(tree):
        named = {k: getattr(tree, k) for k in fields_of(tree)}
    else:
        return None
    parts = {k: part for k, x in named.items() if (part := _part(x)) is not None}
    if not parts:
        return None

    def fill(values: Mapping[int, Tensor], sizes: Mapping[int, int]) -> dict[Any, Any]:
        made = dict(named)
        for k, part in parts.items():
            made[k] = part(values, sizes)
        return made

    if isinstance(tree, dict):
        return fill
    if is_record(tree):
        return lambda values, sizes: rebuilt(tree, fill(values, sizes))
    if hasattr(tree, "_fields"):
        return lambda values, sizes: type(tree)(*fill(values, sizes).values())
    kind = list if isinstance(tree, list) else tuple
    return lambda values, sizes: kind(fill(values, sizes).values())


def store(out: Any, result: Any, values: dict[int, Tensor]) -> None:
    """Keep the tensors of a result under the numbers that its tree has for them."""
    if isinstance(out, Ref):
        values[out.index] = result
    elif isinstance(out, list | tuple):
        for one, x in zip(out, result, strict=True):
            store(one, x, values)
    elif isinstance(out, dict):
        for k, one in out.items():
            store(one, result[k], values)
    elif is_record(out):
        for k in fields_of(out):
            store(getattr(out, k), getattr(result, k), values)


def with_lengths(program: Program, known: Any, given: Any) -> Any:
    """Memories with their lengths, as a program knows them.

    Where nothing is padded, a `start` may leave the mask out; it means the same.
    """
    if isinstance(known, Memory) and isinstance(given, Memory):
        mask: Any = known.mask
        if type(mask) is Lengths and given.mask is None:
            ref: Any = mask.lengths
            shape, kind = program.shapes[ref.index], program.dtypes[ref.index]
            lead = [n if size != 1 else 1 for n, size in zip(given.key.shape, shape, strict=False)]
            full = torch.full(lead, given.key.shape[-2], dtype=kind, device=given.key.device)
            return replace(given, mask=Lengths(full))
    elif isinstance(given, list | tuple) and isinstance(known, list | tuple):
        every = [with_lengths(program, k, x) for k, x in zip(known, given, strict=False)]
        return type(given)(every) if len(known) == len(given) else given
    elif isinstance(given, dict) and isinstance(known, dict):
        return {k: with_lengths(program, known.get(k), x) for k, x in given.items()}
    return given


class Binding:
    """Matches the inputs of a step with those that a program was recorded with.

    Args:
        program: the program.
        known: sizes that were found before, in a part of the inputs.
    """

    def __init__(self, program: Program, known: "Binding | None" = None) -> None:
        self.program = program
        self.sizes: dict[int, int] = {} if known is None else dict(known.sizes)
        self.values: dict[int, Tensor] = {}
        self._later: list[tuple[Extent, int, str]] = [] if known is None else [*known._later]

    def match(self, known: Any, given: Any, where: str) -> None:
        """Match one tree; tensors are kept in `values`, sizes in `sizes`."""
        if isinstance(known, Ref):
            self._match_tensor(known.index, given, where)
        elif isinstance(known, Extent) or type(known) is int:
            self._match_number(known, given, where)
        elif type(known) is not type(given):
            raise NotRecorded(f"{where} is a {type(given).__name__}")
        elif isinstance(known, list | tuple):
            if len(known) != len(given):
                raise NotRecorded(f"{where} has {len(given)} parts")
            for i, one in enumerate(known):
                self.match(one, given[i], f"{where}[{i}]")
        elif isinstance(known, dict):
            if known.keys() != given.keys():
                raise NotRecorded(f"{where} has {', '.join(map(str, given))}")
            for k, one in known.items():
                self.match(one, given[k], f"{where}.{k}")
        elif is_record(known):
            for k in fields_of(known):
                self.match(getattr(known, k), getattr(given, k), f"{where}.{k}")
        elif known is not given and known != given:
            raise NotRecorded(f"{where} is {given!r}")

    def _match_tensor(self, number: int, given: Any, where: str) -> None:
        shape, dtype = self.program.shapes[number], self.program.dtypes[number]
        if not isinstance(given, Tensor) or given.dtype != dtype or given.dim() != len(shape):
            raise NotRecorded(f"{where} is another kind of value")
        fixed = self.program.fixed.get(number)
        if fixed is not None and given is not fixed and not torch.equal(given, fixed):
            raise NotRecorded(f"{where} was the same in every recording")
        self.values[number] = given
        for size, own in zip(shape, given.shape, strict=True):
            self._match_number(size, own, f"the shape of {where}")

    def _match_number(self, known: Any, given: Any, where: str) -> None:
        if not isinstance(known, Extent):
            if known != given:
                raise NotRecorded(f"{where} has {given} in the place of {known}")
        elif len(known.symbols) == 1 and known.a == 1:
            (symbol,) = known.symbols
            size = given - known.c
            if self.sizes.setdefault(symbol, size) != size:
                raise NotRecorded(f"{where} has {given} where other sizes differ")
        else:
            self._later.append((known, given, where))

    def check(self) -> None:
        """Numbers that follow from several sizes, and the comparisons."""
        for known, given, where in self._later:
            if known.at(self.sizes) != given:
                raise NotRecorded(f"{where} has {given}, which does not follow from other sizes")
        self.check_way(self.sizes)

    def check_way(self, sizes: Mapping[int, int]) -> None:
        """The comparisons alone, with these sizes."""
        for one in self.program.comparisons:
            left, right = (
                x.at(sizes) if isinstance(x, Extent) else x for x in (one.left, one.right)
            )
            if not one.holds(left, right):
                raise NotRecorded(f"the model takes another way where {one.name}({left}, {right})")
