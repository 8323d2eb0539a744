"""A program with less to do: what depends on weights alone is computed once."""

from collections.abc import Collection
from typing import Any

import torch

from regard.decode.program.recorder import Node
from regard.decode.program.replay import Program, filler, store
from regard.decode.program.tree import Extent, Ref, extents, map_leaves, refs

__all__ = ["folded", "symbols"]


def folded(program: Program, kept: Collection[int] = ()) -> Program:
    """The same program without unused nodes, and without those that give the same at every step.

    Weights are those of this moment: when they change it has to be folded again.

    Args:
        kept: tensors that stay as they are, by `id`: what is made of them is not computed.
    """
    return _without_twins(_live(_computed(_live(program), kept)))


def symbols(x: Any) -> set[int]:
    """The sizes that the numbers of a tree follow from."""
    return {symbol for extent in extents(x) for symbol in extent.symbols}


def _live(program: Program) -> Program:
    """Only the nodes that an output depends on."""
    needed = set(refs(program.outputs))
    told = symbols((program.inputs, [program.shapes[number] for number in refs(program.inputs)]))
    sizes: set[int] = set()
    kept: list[Node] = []
    for node in reversed(program.nodes):
        is_size = isinstance(node.out, Extent) and set(node.out.symbols) & sizes
        if needed & {*node.makes, *node.writes} or is_size:
            kept.append(node)
            needed |= set(node.reads)
            shapes = [program.shapes[number] for number in node.makes]
            sizes |= symbols((node.args, node.kwargs, shapes)) - told
    made = program.with_nodes(kept[::-1])
    made.constants = {number: x for number, x in program.constants.items() if number in needed}
    made.constants |= {number: x for number, x in program.fixed.items() if number in needed}
    return made


@torch.inference_mode()
def _computed(program: Program, apart: Collection[int]) -> Program:
    """Without nodes that read constants alone; what they make is a constant."""
    values = {**program.constants, **program.fixed}
    values = {number: x for number, x in values.items() if id(x) not in apart}
    written = {number for node in program.nodes for number in node.writes}
    kept: list[Node] = []
    for node in program.nodes:
        arguments = node.args, node.kwargs
        alone = bool(node.reads) and all(number in values for number in node.reads)
        if not alone or extents(arguments) or written & {*node.reads, *node.makes}:
            kept.append(node)
            continue
        args, kwargs = filler(arguments)(values, {})
        store(node.out, node.function(*args, **kwargs), values)
    made = program.with_nodes(kept)
    made.constants = {**program.constants, **program.fixed, **values}
    return made


def _without_twins(program: Program) -> Program:
    """Without a node that computes what another did of the same arguments."""
    written = {number for node in program.nodes for number in node.writes}
    first: dict[Any, Node] = {}
    names: dict[int, int] = {}
    kept: list[Node] = []

    def renamed(leaf: Any) -> Any:
        return Ref(names.get(leaf.index, leaf.index)) if isinstance(leaf, Ref) else leaf

    for node in program.nodes:
        args, kwargs = map_leaves((node.args, node.kwargs), renamed)
        node = Node(node.name, node.function, args, kwargs, node.out)
        if isinstance(node.function, torch._ops.OpOverload) and not written & {
            *node.reads,
            *node.makes,
        }:
            twin = first.setdefault((node.name, repr(args), repr(kwargs)), node)
            if twin is not node:
                names.update(zip(node.makes, twin.makes, strict=True))
                continue
        kept.append(node)
    made = program.with_nodes(kept)
    made.outputs = map_leaves(program.outputs, renamed)
    return _live(made)
