"""A model that reads and answers at once, as one graph: an example's inputs to its logits."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from regard.convert.recorded.generators import FORMS, range_of
from regard.convert.recorded.graph import ProgramGraph
from regard.convert.recorded.inputs import named, program_of, weights_apart
from regard.decode.program.folding import folded, symbols
from regard.decode.program.tree import Extent, refs
from regard.protocols import Inputs

__all__ = ["ReaderGraph", "reader_graph"]


class ReaderGraph(NamedTuple):
    """The graph, and what it is for.

    Args:
        sizes: of each input, the least and the most tokens; None where nothing limits it.
        compared: whether the model compares the sizes of two inputs: then the graph is for inputs
            whose sizes compare as those of the examples do.
    """

    graph: ProgramGraph
    sizes: dict[str, tuple[int, int | None]]
    compared: bool


def reader_graph(
    model: Any,
    examples: Sequence[Sequence[Inputs]],
    names: Sequence[str],
    *,
    fold: bool = True,
    call: Callable[..., Mapping[str, Tensor]] | None = None,
) -> ReaderGraph:
    """The graph of `model(*inputs).logits`, or of another call of the model.

    Args:
        model: in eval mode, on the CPU.
        examples: three, each of one example; sizes differ and do not follow from each other.
        names: of the inputs of the graph, one for each of the model's.
        call: gives the outputs by their names, from the inputs.
        fold: compute once what depends on weights alone; else weights stay as the model has them.

    Raises:
        RequestError: the model does what a graph cannot say, with the reason.
    """

    def read(given: dict[str, Any]) -> dict[str, Tensor]:
        inputs = given["inputs"]
        return {"logits": model(*inputs).logits} if call is None else dict(call(*inputs))

    every = [{"inputs": list(one), "step": 0} for one in examples]
    program = program_of(model, read, every)
    every_input = program.inputs["inputs"]
    sizes = {
        name: range_of(program, program.shapes[next(iter(refs(own.values)))])
        for name, own in zip(names, every_input, strict=True)
    }
    compared = any(len(symbols((one.left, one.right))) > 1 for one in program.comparisons)
    program = folded(program, weights_apart(model, fold))
    known: dict[int, str] = {}
    given: dict[int, Extent] = {}
    for name, own in zip(names, program.inputs["inputs"], strict=True):
        one = named(program, own, name, f"{name}.")
        known |= one.names
        given |= one.given
    graph = ProgramGraph(program, model, FORMS, known, given=given).write(program.outputs)
    return ReaderGraph(graph, sizes, compared)
