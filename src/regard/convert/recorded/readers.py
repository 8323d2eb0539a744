"""A model that reads and answers at once, as one graph: an example's inputs to its logits."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.convert.recorded.generators import FORMS
from regard.convert.recorded.graph import ProgramGraph
from regard.convert.recorded.inputs import named, program_of
from regard.decode.program.folding import folded
from regard.decode.program.tree import Extent
from regard.protocols import Inputs

__all__ = ["reader_graph"]


def reader_graph(
    model: Any, examples: Sequence[Sequence[Inputs]], names: Sequence[str]
) -> ProgramGraph:
    """The graph of `model(*inputs).logits`.

    Args:
        model: in eval mode, on the CPU.
        examples: three, each of one example; sizes differ and do not follow from each other.
        names: of the inputs of the graph, one for each of the model's.

    Raises:
        RequestError: the model does what a graph cannot say, with the reason.
    """

    def read(given: dict[str, Any]) -> dict[str, Tensor]:
        return {"logits": model(*given["inputs"]).logits}

    every = [{"inputs": list(one), "step": 0} for one in examples]
    program = folded(program_of(model, read, every))
    known: dict[int, str] = {}
    given: dict[int, Extent] = {}
    for name, own in zip(names, program.inputs["inputs"], strict=True):
        one = named(program, own, name, f"{name}.")
        known |= one.names
        given |= one.given
    return ProgramGraph(program, model, FORMS, known, given=given).write(program.outputs)
