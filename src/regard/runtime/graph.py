"""A graph of operators, as `program.json` has it, run node by node."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.runtime.operators import OPERATORS, Array

__all__ = ["OperatorGraph"]


class _Node(NamedTuple):
    """A node with the places of the values that it reads (-1: left out) and makes."""

    function: Callable[..., Any]
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    attributes: Mapping[str, Any]
    ended: tuple[int, ...]
    """What no later node reads."""


class OperatorGraph:
    """Computes the outputs of a graph from its inputs. What depends on weights alone is kept.

    Args:
        stored: `inputs`, `outputs` and `nodes`, each node [operator, reads, makes, attributes].
        constants: arrays by name.

    Example:
        >>> nodes = [["Add", ["x", "one"], ["y"], {}]]
        >>> stored = {"inputs": ["x"], "outputs": ["y"], "nodes": nodes}
        >>> OperatorGraph(stored, {"one": np.float32(1)}).run({"x": np.float32(2)})["y"].item()
        3.0
    """

    def __init__(self, stored: Mapping[str, Any], constants: Mapping[str, Array]) -> None:
        self.inputs: list[str] = stored["inputs"]
        self.outputs: list[str] = stored["outputs"]
        self._places: dict[str, int] = {}
        known = {self._place(name): np.asarray(value) for name, value in constants.items()}
        nodes = []
        for one in stored["nodes"]:
            node = self._node(one, OPERATORS)
            if node.function is not _scan and all(p in known for p in node.reads if p >= 0):
                with np.errstate(all="ignore"):
                    _set(known, node, _call(node, known))
            else:
                nodes.append(node)
        self._enter = [self._place(name) for name in self.inputs]
        self._leave = [self._place(name) for name in self.outputs]
        self._nodes = _with_ends(nodes, {*self._leave, *known})
        self._values: list[Any] = [None] * len(self._places)
        read = {place for node in nodes for place in _reads(node)} | {*self._leave}
        for place in read & known.keys():
            self._values[place] = known[place]

    def run(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by their names.

        Args:
            given: the inputs by their names; others are not looked at.
        """
        values = self._values.copy()
        for name, place in zip(self.inputs, self._enter, strict=True):
            values[place] = given[name]
        with np.errstate(all="ignore"):  # a row of minus infinity is NaN, as everywhere
            _run(self._nodes, values)
        return {name: values[at] for name, at in zip(self.outputs, self._leave, strict=True)}

    def _place(self, name: str) -> int:
        return self._places.setdefault(name, len(self._places))

    def _node(self, stored: Sequence[Any], known: Mapping[str, Callable[..., Any]]) -> _Node:
        kind, reads, makes, attributes = stored
        if kind == "Scan":
            function, attributes = _scan, self._scanned(attributes)
        else:
            function = known[kind]
        return _Node(
            function,
            tuple(self._place(name) if name else -1 for name in reads),
            tuple(map(self._place, makes)),
            attributes,
            (),
        )

    def _scanned(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        body = attributes["body"]
        return {
            "nodes": [self._node(one, OPERATORS) for one in body["nodes"]],
            "inputs": [self._place(name) for name in body["inputs"]],
            "outputs": [self._place(name) for name in body["outputs"]],
            "back": bool(attributes.get("scan_input_directions", [0])[0]),
        }


def _reads(node: _Node) -> set[int]:
    """What a node reads, and what the steps of a scan read of the graph around them."""
    found = {place for place in node.reads if place >= 0}
    if node.function is _scan:
        found |= {place for one in node.attributes["nodes"] for place in _reads(one)}
    return found


def _with_ends(nodes: Sequence[_Node], kept: set[int]) -> list[_Node]:
    """Each node with those values that may be let go of behind it."""
    seen = set(kept)
    found = []
    for node in reversed(nodes):
        last = _reads(node) - seen
        seen |= last
        found.append(node._replace(ended=tuple(last)))
    return found[::-1]


def _call(node: _Node, values: Any) -> Any:
    return node.function(
        *(None if place < 0 else values[place] for place in node.reads), **node.attributes
    )


def _set(values: Any, node: _Node, found: Any) -> None:
    if len(node.makes) == 1:
        values[node.makes[0]] = found[0] if isinstance(found, tuple) else found
    else:
        for place, one in zip(node.makes, found, strict=False):  # optional outputs come last
            values[place] = one


def _run(nodes: Sequence[_Node], values: list[Any]) -> None:
    for node in nodes:
        found = _scan(node, values) if node.function is _scan else _call(node, values)
        _set(values, node, found)
        for place in node.ended:
            values[place] = None


def _scan(node: _Node, values: list[Any]) -> tuple[Array, ...]:
    """Run a body along the first axis of the last input: the last states, and what it leaves."""
    own = node.attributes
    *state, steps = (values[place] for place in node.reads)
    *begin, now = own["inputs"]
    left: list[Any] = [None] * len(steps)
    order = range(len(steps) - 1, -1, -1) if own["back"] else range(len(steps))
    for t in order:
        for place, value in zip(begin, state, strict=True):
            values[place] = value
        values[now] = steps[t]
        _run(own["nodes"], values)
        *state, left[t] = (values[place] for place in own["outputs"])
    return (*state, np.stack(left))
