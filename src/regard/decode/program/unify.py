"""One program of several recordings of the same step at different sizes.

Nodes, structures and constants must be the same. Numbers that differ must follow from sizes: from
those of the inputs that differ, and the number of the step.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.decode.program.recorder import Node, NotRecorded, Recording, record
from regard.decode.program.replay import Program
from regard.decode.program.shown_weights import named
from regard.decode.program.sizes import FIXED, Comparison, WatchedSize
from regard.decode.program.structure import hooked
from regard.decode.program.tree import Extent, Ref, fields_of, is_record, rebuilt, refs, tensors
from regard.protocols import Decoding

__all__ = ["recorded", "unify"]

FACTORS = 3
"""The most sizes whose product a number may follow from."""
WHOLE = 2**63 - 1
"""Where a slice ends that takes everything."""


def recorded(
    model: Any, probes: Sequence[tuple[Tensor, Decoding]], *, weights: bool = False
) -> Program:
    """The program of a model's `step`, of the arguments of some steps of different sizes.

    Batch, beam, source and step should follow from each other in no two probes, else a number may
    be taken for another. The model is in eval mode. A program is for the structure that the model
    has now (`structure`), and for its weights as they are.

    Args:
        model: any `Generator`.
        probes: tokens and decodings, which are used up; three are enough.
        weights: of all attentions, as outputs; `Program.shown` says whose.

    Raises:
        NotRecorded: the step cannot be recorded, in a clause that says why.
    """
    why = hooked(model) if isinstance(model, nn.Module) else None
    if why is not None:
        raise NotRecorded(why)
    memories = [tensors(dict(decoding.memories)) for _, decoding in probes]
    recordings = [record(model, *probe, weights=weights) for probe in probes]
    program = unify(recordings)
    program.shown = named(model, recordings[0].shown) if weights else []
    for number, (first, *others) in zip(
        refs(program.inputs["memories"]), zip(*memories, strict=True), strict=True
    ):
        if all(x.shape == first.shape and torch.equal(x, first) for x in others):
            program.fixed[number] = first
    return program


def unify(recordings: Sequence[Recording], *, inner: bool = False) -> Program:
    """The program that all recordings are runs of.

    Args:
        inner: numbers may also be sizes of values that are made on the way, as of a pooling that
            rounds; such a number is a symbol of its own.

    Raises:
        NotRecorded: they are no runs of one program, or a number follows from no size.
    """
    return _Unifier(recordings, inner).program()


class _Unifier:
    def __init__(self, recordings: Sequence[Recording], inner: bool) -> None:
        self.recordings, self.inner = recordings, inner
        self.symbols: list[tuple[int, ...]] = []
        self._numbers: dict[tuple[int, ...], int | Extent] = {}
        every = [_sizes(one) for one in recordings]
        if len({len(sizes) for sizes in every}) > 1:
            raise NotRecorded("values become numbers more often at other sizes")
        for values in zip(*every, strict=True):
            if len(set(values)) > 1 and values not in self.symbols:
                self.symbols.append(values)

    def program(self) -> Program:
        every = self.recordings
        self._check_nodes()
        nodes = [
            Node(
                row[0].name,
                row[0].function,
                self.tree([n.args for n in row], row[0].name),
                self.tree([n.kwargs for n in row], row[0].name),
                self.tree([n.out for n in row], row[0].name),
            )
            for row in zip(*(r.nodes for r in every), strict=True)
        ]
        self._check_constants()
        shapes = {
            number: self.tree([r.shapes[number] for r in every], "a shape")
            for number in every[0].shapes
        }
        comparisons = [*self._comparisons(), *self._ends(nodes, shapes)]
        return Program(
            nodes=nodes,
            inputs=self.tree([r.inputs for r in every], "the inputs"),
            outputs=self.tree([r.outputs for r in every], "the outputs"),
            constants=dict(every[0].constants),
            shapes=shapes,
            dtypes=dict(every[0].dtypes),
            comparisons=list(dict.fromkeys(comparisons)),
        )

    def tree(self, each: Sequence[Any], where: str) -> Any:
        """One tree of the same tree of each recording."""
        each = [int.__int__(x) if type(x) is WatchedSize else x for x in each]
        first = each[0]
        if any(type(x) is not type(first) for x in each):
            kinds = sorted({type(x).__name__ for x in each})
            raise NotRecorded(f"{where} has {' or '.join(kinds)} in one place")
        if isinstance(first, Ref):
            if any(x != first for x in each):
                raise NotRecorded(f"{where} reads values that are made in another order")
            return first
        if isinstance(first, int) and not isinstance(first, bool):
            return self.number(tuple(each), where)
        if isinstance(first, list | tuple):
            if any(len(x) != len(first) for x in each):
                raise NotRecorded(f"{where} has lists of different lengths")
            parts = [self.tree(row, where) for row in zip(*each, strict=True)]
            named = hasattr(first, "_fields")
            return type(first)(*parts) if named else type(first)(parts)
        if isinstance(first, dict):
            if any(list(x) != list(first) for x in each):
                raise NotRecorded(f"{where} has different keys")
            return {k: self.tree([x[k] for x in each], where) for k in first}
        if is_record(first):
            return rebuilt(
                first,
                {k: self.tree([getattr(x, k) for x in each], where) for k in fields_of(first)},
            )
        if any(x is not first and not _equal(x, first) for x in each):
            raise NotRecorded(f"{where} has different settings: {each}")
        return first

    def number(self, values: tuple[int, ...], where: str) -> int | Extent:
        """The same number, or how it follows from sizes."""
        known = self._numbers.get(values)
        if known is None:
            known = self._numbers[values] = self._expressed(values, where)
        return known

    def _expressed(self, values: tuple[int, ...], where: str) -> int | Extent:
        if len(set(values)) == 1:
            return values[0]
        if values in self.symbols:
            return Extent(0, 1, (self.symbols.index(values),))
        fitting: list[tuple[int, int, Extent]] = []
        for count in range(1, FACTORS + 1):
            for symbols in itertools.combinations(range(len(self.symbols)), count):
                products = [
                    math.prod(row) for row in zip(*(self.symbols[s] for s in symbols), strict=True)
                ]
                apart = products[1] - products[0]
                if not apart or (values[1] - values[0]) % apart:
                    continue
                a = (values[1] - values[0]) // apart
                c = values[0] - a * products[0]
                if a and all(c + a * p == v for p, v in zip(products, values, strict=True)):
                    fitting.append((count, abs(c) + (a != 1), Extent(c, a, symbols)))
        if not fitting and self.inner and self._is_made(values):
            self.symbols.append(values)
            return Extent(0, 1, (len(self.symbols) - 1,))
        if not fitting:
            raise NotRecorded(f"{where} has a number that follows from no size: {values}")
        return min(fitting, key=lambda one: one[:2])[2]

    def _is_made(self, values: tuple[int, ...]) -> bool:
        """Whether some value has these sizes at one of its axes."""
        shapes = [r.shapes for r in self.recordings]
        return any(
            values in set(zip(*(own[number] for own in shapes), strict=True))
            for number in shapes[0]
            if len({len(own[number]) for own in shapes}) == 1
        )

    def _check_nodes(self) -> None:
        for row in itertools.zip_longest(*(r.nodes for r in self.recordings)):
            names = list(dict.fromkeys("nothing" if n is None else n.name for n in row))
            if len(names) > 1:
                raise NotRecorded(
                    f"the way through the code depends on sizes or values: {' or '.join(names)}"
                )

    def _check_constants(self) -> None:
        first = self.recordings[0].constants
        for other in self.recordings[1:]:
            if other.constants.keys() != first.keys():
                raise NotRecorded("a step reads other tensors at other sizes")
            for number, x in first.items():
                y = other.constants[number]
                same = y is x or (y.shape == x.shape and y.dtype == x.dtype and torch.equal(x, y))
                if not same:
                    raise NotRecorded(f"a tensor {tuple(x.shape)} that is no input differs")

    def _comparisons(self) -> list[Comparison]:
        made: list[Comparison] = []
        for row in itertools.zip_longest(*(r.comparisons for r in self.recordings)):
            if None in row or len({(one.name, one.outcome) for one in row}) > 1:
                raise NotRecorded("sizes are compared with different outcomes")
            left = self.number(tuple(one.left for one in row), "a comparison")
            right = self.tree([one.right for one in row], "a comparison")
            if row[0].name == FIXED and isinstance(left, Extent):
                raise NotRecorded("a size becomes a plain number, on which the way may depend")
            if left != right and (isinstance(left, Extent) or isinstance(right, Extent)):
                made.append(Comparison(row[0].name, left, right, row[0].outcome))
        return made

    def _ends(self, nodes: Sequence[Node], shapes: dict[int, Any]) -> list[Comparison]:
        """A slice ends where its axis does if that is shorter."""
        made: list[Comparison] = []
        for node in nodes:
            if not node.name.startswith("aten.slice."):
                continue
            axis, *ends = (*node.args[1:4], 0, None, None)[:3]
            size = shapes[refs(node.args)[0]][axis or 0]
            for end in ends:
                if end in (None, 0, WHOLE) or not {type(size), type(end)} & {Extent}:
                    continue
                end = abs(end) if isinstance(end, int) else end
                pairs = zip(self._values(size), self._values(end), strict=True)
                outcomes = {n >= last for n, last in pairs}
                if len(outcomes) > 1:
                    raise NotRecorded("a slice ends before its axis does, or not")
                made.append(Comparison("ge", size, end, outcomes.pop()))
        return made

    def _values(self, size: int | Extent) -> list[int]:
        """A number in each recording."""
        if isinstance(size, int):
            return [size] * len(self.recordings)
        return [
            size.at({s: values[k] for s, values in enumerate(self.symbols)})
            for k in range(len(self.recordings))
        ]


def _sizes(recording: Recording) -> list[int]:
    """All sizes that the inputs of a step have, its number, and numbers that were values."""
    sizes = [n for number in refs(recording.inputs) for n in recording.shapes[number]]
    counts = recording.inputs.get("counts", {})
    return [*sizes, recording.inputs["step"], *counts.values(), *recording.left]


def _equal(x: Any, y: Any) -> bool:
    try:
        return bool(x == y)
    except Exception:  # what cannot be compared is not the same
        return False
