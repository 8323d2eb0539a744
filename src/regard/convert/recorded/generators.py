"""A generator as two graphs: what reads a source and begins, and one step of decoding.

    encoder   source (1, S, …) to logits (1, 1, V) of the first token, memories and states
    step      tokens (1, K), step (), memories and states to logits (1, K, V) and the next states

Memories belong to the source and stay. States belong to the K hypotheses, along their axis 1.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.attention import kernels
from regard.convert.recorded.graph import ProgramGraph
from regard.convert.recorded.inputs import named, program_of, weights_apart
from regard.convert.recorded.operations import OPERATIONS
from regard.convert.recorded.products import PRODUCTS
from regard.convert.recorded.recurrences import RECURRENCES
from regard.convert.recorded.views import VIEWS
from regard.decode.program.folding import folded
from regard.decode.program.folding import symbols as all_symbols
from regard.decode.program.probes import words
from regard.decode.program.replay import Program
from regard.decode.program.sizes import Comparison, WatchedSize
from regard.decode.program.tree import Extent, Ref, refs
from regard.layers.positional_encoding import Sinusoid
from regard.protocols import BOS, Decoding, Inputs

__all__ = ["FORMS", "GeneratorGraphs", "generator_graphs", "range_of"]

FORMS = {**VIEWS, **OPERATIONS, **PRODUCTS, **RECURRENCES}
"""The form of every operation that is known."""
BEAMS, STEPS = (3, 2, 4), (2, 3, 5)
"""Hypotheses and the number of the step of each example: none follows from another."""


@dataclass(frozen=True)
class GeneratorGraphs:
    """Two graphs, and what they are for.

    Args:
        states: names of the states; an output of the same name with `next_` before it is the next.
        memories: names of what stays.
        source: the most and the least places of a source; None where nothing limits it.
        steps: after how many steps the graph ends; None: never.
        conditions: what else has to hold, in sentences.
    """

    encoder: ProgramGraph
    step: ProgramGraph
    states: list[str]
    memories: list[str]
    source: tuple[int, int | None]
    steps: int | None
    conditions: list[str]


def generator_graphs(
    model: Any, sources: Sequence[Inputs], *, positions: int = 1024, fold: bool = True
) -> GeneratorGraphs:
    """The graphs of a model that writes.

    Args:
        model: a `Generator` in eval mode, on the CPU.
        sources: three, each of one example, whose sizes differ and do not follow from each other.
        positions: how many positions a table that grows has in the graph.
        fold: compute once what depends on weights alone; else weights stay as the model has them.

    Raises:
        RequestError: the model does what a graph cannot say, with the reason.
    """
    for module in model.modules():
        if isinstance(module, Sinusoid):  # grows where it is asked for more
            module(torch.zeros(1, module.dim), at=positions - 1)
    first = program_of(model, _reader(model), [_source(model, one) for one in sources])
    step = program_of(model, _stepper(model), _steps(model, sources))
    names = _names(step)
    _keep(first, names)
    known = {number: name for name, number in names.items()}
    (tokens,) = refs(step.inputs["tokens"])
    apart = weights_apart(model, fold)
    return GeneratorGraphs(
        _encoder(model, first, apart),
        _step(model, step, known, tokens, apart),
        [name for name in names if name.startswith("state")],
        [name for name in names if name.startswith("memory")],
        range_of(first, _sizes_of(first)),
        range_of(step, [step.inputs["step"]])[1],
        _conditions(step, known),
    )


# -- what is recorded


def joined_frames(model: Any) -> int:
    """How many neighboring frames the encoder reads as one; 1 for all but sounds."""
    return int(getattr(getattr(model, "encoder", None), "join", 1))


def _source(model: Any, one: Inputs) -> dict[str, Any]:
    join = joined_frames(model)
    counts = {"joined": one.values.shape[1] // join} if join > 1 else {}
    return {"source": one, "step": 0, "counts": counts}


def _reader(model: Any) -> Any:
    def read(given: dict[str, Any]) -> dict[str, Any]:
        begun = model.start(model.encode(given["source"]))
        logits, after = model.step(torch.full((1, 1), BOS), begun)
        memories, carried = dict(after.memories), dict(after.carried)
        return {"logits": logits, "memories": memories, "carried": carried}

    return read


def _stepper(model: Any) -> Any:
    def step(given: dict[str, Any]) -> dict[str, Any]:
        decoding = Decoding(given["memories"], given["carried"], WatchedSize(given["step"]))
        logits, after = model.step(given["tokens"], decoding)
        return {"logits": logits, "carried": dict(after.carried)}

    return step


@torch.inference_mode()
def _steps(model: Any, sources: Sequence[Inputs]) -> list[dict[str, Any]]:
    """The arguments of later steps; hypotheses are in another order after each."""
    with kernels("reference"):
        return [
            _later(model, source, beam, steps)
            for source, beam, steps in zip(sources, BEAMS, STEPS, strict=True)
        ]


def _later(model: Any, source: Inputs, beam: int, steps: int) -> dict[str, Any]:
    """The arguments of one step, after `steps` others."""
    decoding = model.start(model.encode(source))
    tokens = torch.full((1, 1), BOS)
    for step in range(steps):
        _, decoding = model.step(tokens, decoding)
        order = (torch.arange(beam) + step) % tokens.shape[1]
        decoding = decoding.select(order[None])
        tokens = words(model, beam, step)[None]
    return {
        "tokens": tokens,
        "memories": dict(decoding.memories),
        "carried": dict(decoding.carried),
        "step": decoding.step,
    }


# -- what goes from the first graph to the second


def _names(step: Program) -> dict[str, int]:
    """What the step reads, by its name: as `memory.0` and `state.0`."""
    read = {number for node in step.nodes for number in node.reads} | set(refs(step.outputs))
    names: dict[str, int] = {}
    places = [
        (f"{kind}.{place}", number)
        for kind, part in (("memory", "memories"), ("state", "carried"))
        for place, number in enumerate(refs(step.inputs[part]))
    ]
    told = _symbols(step, [*refs(step.inputs["tokens"]), *read])
    for name, number in places:
        more = _symbols(step, [number]) - told  # read for its shape alone
        if number not in names.values() and (number in read or more):
            names[name] = number
            told |= more
    return names


def _symbols(program: Program, numbers: Iterable[int]) -> set[int]:
    """The sizes that the shapes of some inputs tell."""
    given = set(refs(program.inputs)) & set(numbers)
    shapes = [program.shapes[number] for number in given]
    return {
        n.symbols[0]
        for shape in shapes
        for n in shape
        if isinstance(n, Extent) and len(n.symbols) == 1 and n.a == 1
    }


def _keep(first: Program, names: Mapping[str, int]) -> None:
    """Let the first graph give what the second reads, and no more."""
    kept = {"logits": first.outputs["logits"]}
    parts = {
        "memory": refs(first.outputs["memories"]),
        "state": refs(first.outputs["carried"]),
    }
    for name in names:
        kind, place = name.split(".")
        kept[name] = Ref(parts[kind][int(place)])
    first.outputs = kept


def _encoder(model: Any, program: Program, apart: Collection[int]) -> ProgramGraph:
    program = folded(program, apart)
    names, given = named(program, program.inputs["source"], "source")
    (values,) = refs(program.inputs["source"].values)
    counted = {
        count.symbols[0]: (program.shapes[values][1].symbols[0], joined_frames(model))
        for count in program.inputs.get("counts", {}).values()
    }
    graph = ProgramGraph(program, model, FORMS, names, given=given, counted=counted)
    return graph.write(program.outputs)


def _step(
    model: Any, program: Program, known: Mapping[int, str], tokens: int, apart: Collection[int]
) -> ProgramGraph:
    places = refs(program.inputs["carried"])
    after = refs(program.outputs["carried"])
    outputs = {"logits": program.outputs["logits"]}
    for number, name in known.items():
        if name.startswith("state"):
            outputs[f"next_{name}"] = Ref(after[places.index(number)])
    program.outputs = outputs
    program = folded(program, apart)
    graph = ProgramGraph(
        program, model, FORMS, {tokens: "tokens", **known}, step=program.inputs["step"]
    )
    return graph.write(program.outputs)


# -- what they are for


def _sizes_of(program: Program) -> list[Any]:
    (values,) = refs(program.inputs["source"].values)
    return list(program.shapes[values])


def range_of(program: Program, sizes: Sequence[Any]) -> tuple[int, int | None]:
    """From where to where the way through the code is the one that was recorded."""
    symbols = [n.symbols[0] for n in sizes if isinstance(n, Extent) and len(n.symbols) == 1]
    low: int = 1
    high: int | None = None
    for one in program.comparisons:
        used = all_symbols((one.left, one.right))
        if len(used) != 1 or not used & set(symbols):
            continue
        tried = _turning_points(one)
        (symbol,) = used
        fitting = [n for n in tried if _holds(one, {symbol: n})]
        if fitting:
            low = max(low, fitting[0])
            if fitting[-1] != tried[-1]:
                high = fitting[-1] if high is None else min(high, fitting[-1])
    return low, high


def _holds(one: Comparison, sizes: Mapping[int, int]) -> bool:
    sides = (x.at(sizes) if isinstance(x, Extent) else x for x in (one.left, one.right))
    return one.holds(*sides)


def _turning_points(one: Comparison) -> list[int]:
    """Sizes among which a comparison comes out otherwise, in order."""
    points = {1, LARGEST}
    for x, y in ((one.left, one.right), (one.right, one.left)):
        if isinstance(x, Extent):
            middle = int(((y if isinstance(y, int | float) else y.c) - x.c) / x.a)
            points |= set(range(middle - 2, middle + 3))
    return sorted(n for n in points if 1 <= n <= LARGEST)


def _conditions(step: Program, known: Mapping[int, str]) -> list[str]:
    """Comparisons of the step's number with sizes of what it reads."""
    axes = {
        n: f"`{name}.shape[{axis}]`"
        for number, name in known.items()
        for axis, n in enumerate(step.shapes[number])
        if isinstance(n, Extent)
    }
    names = {**axes, step.inputs["step"]: "`step`"}
    said = []
    for one in step.comparisons:
        sides = one.left, one.right
        if all(side in names for side in sides) and step.inputs["step"] in sides:
            left, right = (names[side] for side in sides)
            sign = SIGNS[one.name][0 if one.outcome else 1]
            said.append(f"The step is for {left} {sign} {right}.")
    return said


SIGNS = {
    "lt": ("<", ">="),
    "le": ("<=", ">"),
    "gt": (">", "<="),
    "ge": (">=", "<"),
    "eq": ("==", "!="),
    "ne": ("!=", "=="),
}
"""A comparison that came out true, and one that came out false."""
LARGEST = 1 << 20
"""A size that no limit is above."""
