"""Recording a step: which operations a model's `step` calls, on which values.

    recording = record(model, tokens, decoding)

Every operation of PyTorch is a `Node`, and so is every named operation (`native.operation`).
PyTorch's composite operations stay whole (`linear`, `layer_norm`, an LSTM). What a replay could not
repeat is a reason to refuse, with its name:

- a value becomes a number of Python (`item`, `tolist`, `bool`), so that the way may depend on it;
- C gets the address of a tensor outside of a named operation;
- a write into an input, a weight or a view;
- random numbers, and results whose shapes depend on values.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode_temporarily

from regard.attention.recording import unseen, watching
from regard.decode.program.shown_weights import AskedWeights
from regard.decode.program.sizes import FIXED, Comparison, WatchedShape, WatchedSize, comparisons
from regard.decode.program.tree import Ref, map_leaves, refs
from regard.errors import RegardError
from regard.native.operation import recording_operations
from regard.protocols import Decoding

__all__ = [
    "ESCAPES",
    "UNREPEATABLE",
    "Node",
    "NotRecorded",
    "Recorder",
    "Recording",
    "inputs_of",
    "named_arguments",
    "record",
    "recorded_call",
]

ESCAPES = frozenset(
    (
        "tolist",
        "numpy",
        "data_ptr",
        "item",
        "untyped_storage",
        "storage",
        "_typed_storage",
        "__array__",
        "__dlpack__",
        "__bool__",
        "__int__",
        "__float__",
        "__index__",
        "__complex__",
    )
)
"""Methods of a tensor that give its values or its address to Python."""
UNREPEATABLE = {
    torch.Tag.nondeterministic_seeded: "draws random numbers",
    torch.Tag.dynamic_output_shape: "has a result whose shape depends on values",
    torch.Tag.data_dependent_output: "gives a value to Python",
}


class NotRecorded(RegardError):
    """A step cannot be recorded, or a recording does not fit an input; says why in a clause."""


@dataclass
class Node:
    """One call: of a PyTorch operation, or of a named one.

    Args:
        name: "aten.linear.default", "attend".
        function: what is called.
        args, kwargs: trees of `Ref`, numbers and constants.
        out: a tree of `Ref`.
    """

    name: str
    function: Any
    args: Any
    kwargs: dict[str, Any]
    out: Any

    @property
    def short(self) -> str:
        """The name alone: "linear", "attend"."""
        return self.name.removeprefix("aten.").split(".")[0]

    @property
    def reads(self) -> list[int]:
        """The values that it reads."""
        return refs((self.args, self.kwargs))

    @property
    def makes(self) -> list[int]:
        """The values that it makes."""
        return refs(self.out)

    @property
    def writes(self) -> list[int]:
        """The values that it writes into."""
        schema = getattr(self.function, "_schema", None)
        return [] if schema is None else refs(_written(schema, self.args, self.kwargs))


@dataclass
class Recording:
    """The nodes of one step.

    Args:
        inputs: a tree of `tokens`, `memories`, `carried` and `step`.
        outputs: a tree of `logits` and `carried`.
        constants: tensors that are no inputs: weights, buffers.
        shapes, dtypes: of every value.
        comparisons: of sizes, in their order.
        left: numbers that were values of tensors, where a recorder allows that.
        shown: whose weights of attention are among the outputs.
    """

    nodes: list[Node] = field(default_factory=list)
    inputs: Any = None
    outputs: Any = None
    constants: dict[int, Tensor] = field(default_factory=dict)
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    dtypes: dict[int, torch.dtype] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    shown: list[tuple[object, Any]] = field(default_factory=list)


def inputs_of(tokens: Any, decoding: Decoding) -> dict[str, Any]:
    """The inputs of a step as one tree."""
    return {
        "tokens": tokens,
        "memories": dict(decoding.memories),
        "carried": dict(decoding.carried),
        "step": decoding.step,
    }


@torch.inference_mode()
def record(model: Any, tokens: Tensor, decoding: Decoding, *, weights: bool = False) -> Recording:
    """Record one step. Nobody who watches sees it.

    Args:
        weights: of all attentions, as outputs of the step.
        decoding: is used up, as by a step: its memories may be extended.

    Raises:
        NotRecorded: the step does what a replay could not repeat.
    """
    given = map_leaves(inputs_of(tokens, decoding), lambda leaf: leaf)  # without spare room
    watched = Decoding(given["memories"], given["carried"], WatchedSize(decoding.step))
    recorder = Recorder()
    recorder.asked = AskedWeights(recorder.refuse) if weights else None
    with recorded_call(recorder, given) as recording:
        logits, after = model.step(given["tokens"], watched)
    if recorder.reason is not None:
        raise NotRecorded(recorder.reason)
    if dict(after.memories).keys() != dict(decoding.memories).keys() or any(
        after.memories[k] is not watched.memories[k] for k in after.memories
    ):
        raise NotRecorded("a step changes its memories")
    recording.outputs = recorder.tree({"logits": logits, "carried": dict(after.carried)})
    if recorder.asked is not None:
        recording.outputs["weights"] = recorder.asked.weights
        recording.shown = recorder.asked.owners
    if after.step != decoding.step + 1:
        raise NotRecorded("a step is not counted as one")
    return recording


@contextlib.contextmanager
def recorded_call(recorder: "Recorder", given: Any) -> Iterator[Recording]:
    """Record what the block calls; its outputs are left to the caller. Nobody who watches sees it.

    Args:
        recorder: a new one; has the `reason` afterwards why the calls cannot be replayed, if any.
        given: the inputs, a tree.
    """
    recording = recorder.recording
    recording.inputs = recorder.tree(given, inputs=True)
    token = comparisons.set(recording.comparisons)
    try:
        watcher = contextlib.nullcontext() if recorder.asked is None else watching(recorder.asked)
        with unseen(), watcher, recording_operations(recorder), _Functions(recorder), recorder:
            yield recording
    finally:
        comparisons.reset(token)


def _is_repeatable(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether an operation that may be unrepeatable is not with these arguments.

    An index of numbers (no mask) has a shape that follows from shapes; layers in eval mode, or
    without dropout, draw nothing.
    """
    if func is torch.ops.aten.index.Tensor:
        return all(x is None or x.dtype not in (torch.bool, torch.uint8) for x in args[1])
    given = named_arguments(func._schema, args, kwargs)
    return not given.get("train", True) or given.get("dropout", given.get("dropout_p", 1)) == 0


def named_arguments(schema: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by their names."""
    return dict(zip((a.name for a in schema.arguments), args, strict=False)) | kwargs


def _written(schema: Any, args: Any, kwargs: dict[str, Any]) -> list[Any]:
    """The arguments that an operation writes into."""
    if not schema.is_mutable:
        return []
    given = named_arguments(schema, args, kwargs)
    return [
        given[a.name]
        for a in schema.arguments
        if a.alias_info is not None and a.alias_info.is_write and a.name in given
    ]


class _Functions(TorchFunctionMode):
    """Sees what never becomes an operation: methods that give values away, and shapes."""

    def __init__(self, recorder: "Recorder") -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.recorder.is_inside:
            return result
        name = getattr(func, "__name__", "")
        if name in self.recorder.escapes:
            self.recorder.refuse(f"{name} gives a value to Python")
        if name == "__len__":  # Python makes it a plain int
            self.recorder.recording.comparisons.append(Comparison(FIXED, result, result, True))
        if isinstance(result, torch.Size):
            return WatchedShape(WatchedSize(n) for n in result)
        if name in ("numel", "size", "nelement") and type(result) is int:
            return WatchedSize(result)
        return result


class Recorder(TorchDispatchMode):
    """Writes every operation down while it is active."""

    escapes: frozenset[str] = ESCAPES
    unrepeatable: Mapping[torch.Tag, str] = UNREPEATABLE

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recording = Recording()
        self.reason: str | None = None
        self.asked: AskedWeights | None = None
        self.is_inside = False
        self._numbers: dict[int, int] = {}
        self._alive: list[Tensor] = []  # an id belongs to one tensor as long as that lives
        self._inputs: set[int] = set()
        self._owners: dict[int, set[int]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No, and PyTorch need not import its compiler for that (two seconds)."""
        return False

    def refuse(self, reason: str) -> None:
        """Keep the first reason why this cannot be replayed."""
        self.reason = self.reason or reason

    def tree(self, x: Any, *, made: bool = False, inputs: bool = False) -> Any:
        """A tree with `Ref`s for its tensors; those that were `made` now have new numbers."""

        def leaf(v: Any) -> Any:
            if isinstance(v, Tensor):
                return self._value(v, made, inputs)
            return v

        return map_leaves(x, leaf)

    def _value(self, x: Tensor, made: bool, inputs: bool) -> Ref:
        if id(x) in self._numbers and not made:
            return Ref(self._numbers[id(x)])
        if type(x) not in (Tensor, torch.nn.Parameter, torch.nn.Buffer):
            self.refuse(f"a tensor is a {type(x).__name__}")
        number = len(self._alive)
        self._alive.append(x)
        self._numbers[id(x)] = number
        recording = self.recording
        recording.shapes[number], recording.dtypes[number] = tuple(x.shape), x.dtype
        if inputs:
            self._inputs.add(number)
        elif not made:
            recording.constants[number] = x
        self._owners.setdefault(x.untyped_storage()._cdata, set()).add(id(x))
        return Ref(number)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.is_inside:
            return func(*args, **kwargs)
        for tag, reason in self.unrepeatable.items():
            if tag in func.tags and not _is_repeatable(func, args, kwargs):
                self.refuse(f"{func} {reason}")
        for x in _written(func._schema, args, kwargs):
            if isinstance(x, Tensor):
                self._check_write(func, x)
        given = self._given(args, kwargs)
        out = func(*args, **kwargs)
        if isinstance(out, int | float):
            self.leave(str(func), out)
        self._add(str(func), func, given, out)
        return out

    def leave(self, name: str, value: int | float) -> None:
        """A value became a number of Python: here, a reason to refuse."""
        self.refuse(f"{name} gives a value to Python")

    def operation(self, name: str, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Call a named operation, which is one node."""
        asked = self.asked if name == "attend" else None
        if asked is not None:
            kwargs = {**kwargs, "need_weights": True}
        given = self._given(args, kwargs)
        with self._inside():
            out = function(*args, **kwargs)
        self._add(name, function, given, out)
        if asked is not None:
            asked.give(kwargs.get("name"), self.recording.nodes[-1].out.weights)
        return out

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        self.is_inside = True
        token = comparisons.set(None)
        try:
            with recording_operations(None), _pop_mode_temporarily():
                yield
        finally:
            self.is_inside = False
            comparisons.reset(token)

    def _given(self, args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]]:
        with torch._C.DisableTorchFunction():
            return self.tree(args), self.tree(kwargs)

    def _add(self, name: str, function: Any, given: tuple[Any, dict[str, Any]], out: Any) -> None:
        with torch._C.DisableTorchFunction():
            made = self.tree(out, made=True)
        self.recording.nodes.append(Node(name, function, *given, made))

    def _check_write(self, func: Any, x: Tensor) -> None:
        with torch._C.DisableTorchFunction():
            owners = self._owners.get(x.untyped_storage()._cdata, set())
        number = self._numbers.get(id(x))
        if number is None or number in self._inputs or number in self.recording.constants:
            self.refuse(f"{func} writes into what was given to the step")
        elif len(owners) > 1:
            self.refuse(f"{func} writes into a view")
