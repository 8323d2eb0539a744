"""A model that reads and answers at once, as one graph: classes, scores, relations.

model   the inputs of one example to logits, as the model gives them
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.convert.recorded.generators import FORMS
from regard.convert.recorded.graph import ProgramGraph
from regard.decode.program.folding import folded
from regard.decode.program.plain_recorder import plain_program
from regard.decode.program.recorder import NotRecorded
from regard.decode.program.tree import Extent, refs
from regard.errors import RequestError
from regard.protocols import Inputs

__all__ = ["reader_graph"]


def reader_graph(model: Any, examples: Sequence[Sequence[Inputs]], names: Sequence[str]) -> Any:
    """The graph of `model(*inputs).logits`.

    Args:
        model: in eval mode, on the CPU.
        examples: three, each of one example; sizes differ and do not follow from each other.
        names: of the inputs of the graph, one for each of the model's.

    Raises:
        RequestError: the model does what a graph cannot say, with the reason.
    """

    def read(given: dict[str, Any]) -> dict[str, Tensor]:
        inputs = [Inputs(x["values"], x["lengths"], x["extras"]) for x in given["inputs"]]
        return {"logits": model(*inputs).logits}

    every = [
        {
            "inputs": [
                {"values": x.values, "lengths": x.lengths, "extras": dict(x.extras)} for x in one
            ],
            "step": 0,
        }
        for one in examples
    ]
    try:
        program = folded(plain_program(read, every))
    except NotRecorded as error:
        raise RequestError(f"onnx: {type(model).__name__} cannot be recorded: {error}") from error
    known, given = {}, {}
    for name, own in zip(names, program.inputs["inputs"], strict=True):
        (values,) = refs(own["values"])
        known[values] = name
        for number in refs(own["lengths"]):
            n = program.shapes[values][1]
            given[number] = n if isinstance(n, Extent) else Extent(n, 0, ())
        for extra, one in own["extras"].items():
            known |= {number: f"{name}.{extra}" for number in refs(one)}
    graph = ProgramGraph(program, model, FORMS, known, given=given)
    return graph.write(program.outputs)
