"""The inputs of a model in a recording, and in the graph that is made of it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from regard.decode.program.plain_recorder import plain_program
from regard.decode.program.recorder import NotRecorded
from regard.decode.program.replay import Program
from regard.decode.program.tree import Extent, refs
from regard.errors import RequestError
from regard.protocols import Inputs

__all__ = ["GraphInputs", "named", "program_of", "weights_apart"]


def program_of(
    model: Any, call: Callable[[Any], Any], examples: Sequence[dict[str, Any]]
) -> Program:
    """The program of a call of a model.

    Raises:
        RequestError: the call cannot be recorded, with the reason.
    """
    try:
        return plain_program(call, examples)
    except NotRecorded as error:
        raise RequestError(f"onnx: {type(model).__name__} cannot be recorded: {error}") from error


def weights_apart(model: Any, fold: bool) -> frozenset[int]:
    """The weights, by `id`, of which nothing is computed beforehand: all, or with `fold` no one."""
    return frozenset() if fold else frozenset(map(id, (*model.parameters(), *model.buffers())))


class GraphInputs(NamedTuple):
    """By their numbers, inputs that the graph has, and lengths, which follow from a shape."""

    names: dict[int, str]
    given: dict[int, Extent]


def named(program: Program, inputs: Inputs, name: str, extras: str = "") -> GraphInputs:
    """How a graph of one example without padding has these inputs.

    Args:
        inputs: as the program has them.
        extras: what stands before the names of the extras.
    """
    (values,) = refs(inputs.values)
    names = {values: name}
    for extra, one in inputs.extras.items():
        names |= {number: f"{extras}{extra}" for number in refs(one)}
    size = program.shapes[values][1]
    size = size if isinstance(size, Extent) else Extent(size, 0, ())
    return GraphInputs(names, dict.fromkeys(refs(inputs.lengths), size))
