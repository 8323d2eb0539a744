"""A recorded program as an ONNX graph, node by node.

Numbers that follow from sizes (`Extent`) are computed in the graph from the shapes of its inputs,
so that one graph is for every length.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.convert._graph import INT64, GraphValue, OnnxGraph
from regard.decode.program.recorder import Node
from regard.decode.program.replay import Program
from regard.decode.program.tree import Extent, Ref, refs
from regard.errors import RegardError, RequestError

__all__ = ["ONNX_TYPES", "Form", "NoForm", "ProgramGraph"]


class NoForm(RegardError):
    """An operation is called in a way that the graph has no form for; names it with a noun."""


ONNX_TYPES: Mapping[torch.dtype, int] = {
    torch.float32: 1,
    torch.uint8: 2,
    torch.int8: 3,
    torch.int32: 6,
    torch.int64: 7,
    torch.bool: 9,
    torch.float64: 11,
}
"""The number of each dtype in ONNX (`onnx.TensorProto`)."""

SMALL = 64
"""Constants up to this size are kept once where they are equal."""

Form = Callable[["ProgramGraph", Node], Any]
"""What writes a node: it gives the name, or the names, of what the node makes."""


class ProgramGraph(OnnxGraph):
    """The graph of a program.

    Args:
        program: its inputs become inputs of the graph as they are named.
        model: gives its weights their names.
        forms: how each operation is written, by its name without overload.
        names: the input of the graph that each input of the program is, by its number.
        given: values of inputs that follow from sizes, in the place of an input of the graph.
        counted: of each symbol that is a count, the symbol that is a multiple, and the factor.
        step: the number of the step as the program knows it; becomes the input `step`.
    """

    def __init__(
        self,
        program: Program,
        model: nn.Module,
        forms: Mapping[str, Form],
        names: Mapping[int, str],
        *,
        given: Mapping[int, Extent] | None = None,
        counted: Mapping[int, tuple[int, int]] | None = None,
        step: Any = None,
    ) -> None:
        super().__init__(None)
        self.program, self.forms = program, forms
        self._weights = {id(p): name for name, p in model.named_parameters()}
        self._weights |= {id(p): name for name, p in model.named_buffers()}
        self._values: dict[int, str] = {}
        self._symbols: dict[int, str] = {}
        self._sizes: dict[Any, str] = {}
        self.kept: dict[Any, str] = {}
        for number, name in names.items():
            self._values[number] = self._entered(name, number)
        if step is not None:
            self._enter_step(step)
        for number, name in names.items():
            self._measure(number, name)
        for symbol, (base, factor) in (counted or {}).items():
            self._symbols[symbol] = self.put("Div", self._symbols[base], self.constant([factor]))
        for number, extent in (given or {}).items():
            shape = self.constant(program.shapes[number])
            self._values[number] = self.put("Reshape", self.size(extent), shape)

    def _entered(self, name: str, number: int) -> str:
        self.inputs.append(self._described(name, number))
        return name

    def _described(self, name: str, number: int) -> GraphValue:
        shape = [
            size if isinstance(size, int) else f"{name}.{axis}"
            for axis, size in enumerate(self.program.shapes[number])
        ]
        return GraphValue(name, ONNX_TYPES[self.program.dtypes[number]], shape)

    def _enter_step(self, step: Any) -> None:
        self.inputs.append(GraphValue("step", INT64, []))
        if isinstance(step, Extent):
            self.define(step, self.put("Reshape", "step", self.constant([1])))

    def _measure(self, number: int, name: str) -> None:
        """Symbols that nothing defined yet, from the shape of a value."""
        for axis, size in enumerate(self.program.shapes[number]):
            match size:
                case Extent(c=c, a=1, symbols=(symbol,)) if symbol not in self._symbols:
                    found = self.put("Gather", self.put("Shape", name), self.constant([axis]))
                    if c:
                        found = self.put("Sub", found, self.constant([c]))
                    self._symbols[symbol] = found

    def define(self, extent: Extent, name: str) -> None:
        """A number that was the value of a tensor: from here on, of the tensor `name` (1,)."""
        if extent.a == 1 and len(extent.symbols) == 1 and extent.symbols[0] not in self._symbols:
            if extent.c:
                name = self.put("Sub", name, self.constant([extent.c]))
            self._symbols[extent.symbols[0]] = name

    # -- what a node is given

    def of(self, x: Any, dtype: torch.dtype | None = None) -> str:
        """The name of a value, or of a number as a constant; cast where another dtype is asked for.

        Args:
            x: a `Ref`, a number, or a number that follows from sizes.
        """
        if not isinstance(x, Ref):
            if isinstance(x, Extent):
                name = self.put("Squeeze", self.size(x), self.constant([0]))
                return name if dtype in (None, torch.int64) else self.cast(name, dtype)
            kind = dtype or (torch.float32 if isinstance(x, float) else torch.int64)
            return self.tensor(torch.tensor(x, dtype=kind))
        number = x.index
        if number not in self._values:
            held = self.held(x)
            if held is None:
                raise AssertionError(f"value {number} is read before it is made")
            self._values[number] = self.tensor(held)
        found = self._values[number]
        return found if dtype in (None, self.dtype(x)) else self.cast(found, dtype)

    def held(self, x: Any) -> Tensor | None:
        """The tensor of a value that is a constant."""
        if not isinstance(x, Ref):
            return None
        return self.program.constants.get(x.index)

    def tensor(self, x: Tensor) -> str:
        """A constant; a weight has the name that it has in the model."""
        name = self._weights.get(id(x))
        array = x.detach().cpu().contiguous().numpy()
        if name is None and x.numel() <= SMALL:
            name = f"constant.{array.dtype}.{array.tolist()}"
        name = name or f"constant.{len(self.constants)}"
        self.constants[name] = array
        return name

    def dtype(self, x: Any) -> torch.dtype:
        """The dtype of a value."""
        if isinstance(x, Ref):
            return self.program.dtypes[x.index]
        return torch.float32 if isinstance(x, float) else torch.int64

    def shape(self, x: Ref) -> tuple[int | Extent, ...]:
        """The shape of a value."""
        found: tuple[int | Extent, ...] = self.program.shapes[x.index]
        return found

    def rank(self, x: Ref) -> int:
        """How many axes a value has."""
        return len(self.shape(x))

    def axis(self, x: Ref, axis: int) -> int:
        """An axis, counted from the front."""
        return axis % max(1, self.rank(x))

    def size(self, n: int | Extent) -> str:
        """A number as a tensor (1,) of 64-bit integers."""
        if not isinstance(n, Extent) or not n.symbols:
            return self.constant([n.at({}) if isinstance(n, Extent) else n])
        if n not in self._sizes:
            found = ""
            for symbol in n.symbols:
                if symbol not in self._symbols:
                    raise NoForm("a size that follows from no input")
                one = self._symbols[symbol]
                found = self.put("Mul", found, one) if found else one
            if n.a != 1:
                found = self.put("Mul", found, self.constant([n.a]))
            self._sizes[n] = self.put("Add", found, self.constant([n.c])) if n.c else found
        return self._sizes[n]

    def sizes(self, shape: Sequence[int | Extent]) -> str:
        """A shape as a tensor."""
        if all(isinstance(n, int) for n in shape):
            return self.constant(list(shape)) if shape else self.tensor(torch.zeros(0).long())
        key = tuple(shape)
        if key not in self._sizes:
            parts = [self.size(n) for n in shape]
            self._sizes[key] = parts[0] if len(parts) == 1 else self.put("Concat", *parts, axis=0)
        return self._sizes[key]

    # -- what forms use

    def cast(self, name: str, dtype: torch.dtype) -> str:
        """A value in another dtype."""
        return self.put("Cast", name, to=ONNX_TYPES[dtype])

    def reshaped(self, name: str, shape: Sequence[int | Extent]) -> str:
        """A value in another shape; one size that is not known may be found by the runtime."""
        unknown = [n for n in shape if isinstance(n, Extent)]
        if len(unknown) == 1 and 0 not in shape:
            return self.put(
                "Reshape",
                name,
                self.constant([-1 if isinstance(n, Extent) else n for n in shape]),
            )
        # A size of 0 is a size here, and not "as it was".
        return self.put("Reshape", name, self.sizes(shape), allowzero=1)

    # -- the walk

    def write(self, outputs: Mapping[str, Any]) -> "ProgramGraph":
        """Add all nodes, and these outputs: names, and the values that they are.

        Raises:
            RequestError: an operation has no form in ONNX.
        """
        for node in self.program.nodes:
            self._add(node)
        for name, x in outputs.items():
            self.put("Identity", self.of(x), into=name)
            self.outputs.append(self._described(name, x.index))
        return self

    def _add(self, node: Node) -> None:
        name = node.short
        form = self.forms.get(name) or self.forms.get(name.rstrip("_"))
        if form is None:
            raise RequestError(f"onnx: the operation {node.name} has no form there yet")
        try:
            found = form(self, node)
        except NoForm as error:
            raise RequestError(f"onnx: {node.name} with {error} has no form there yet") from error
        made = [found] if isinstance(found, str) else list(found or ())
        for number, one in zip(refs(node.out), made, strict=True):
            self._values[number] = one
            self._measure(number, one)
