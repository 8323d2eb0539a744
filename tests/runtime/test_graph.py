"""A graph keeps what depends on weights alone, and lets go of what is read no more."""

import numpy as np
import pytest

from regard.runtime import graph as module
from regard.runtime.graph import OperatorGraph
from regard.runtime.operators import OPERATORS

NODES = [
    ["Transpose", ["weight"], ["turned"], {"perm": [1, 0]}],
    ["MatMul", ["x", "turned"], ["y"], {}],
    ["Add", ["y", "bias"], ["z"], {}],
    ["Relu", ["z"], ["out"], {}],
]
CONSTANTS = {"weight": np.ones((2, 3), np.float32), "bias": np.float32([-1, 1])}


def graph(nodes=NODES, outputs=("out",)):
    return OperatorGraph({"inputs": ["x"], "outputs": list(outputs), "nodes": nodes}, CONSTANTS)


def test_outputs_have_their_names():
    found = graph(outputs=("out", "y")).run({"x": np.ones((1, 3), np.float32)})
    assert {name: x.tolist() for name, x in found.items()} == {"out": [[2, 4]], "y": [[3, 3]]}


def test_what_depends_on_weights_alone_is_computed_once(monkeypatch):
    calls = []
    monkeypatch.setitem(
        module.OPERATORS, "Transpose", lambda x, perm: calls.append(1) or x.transpose(perm)
    )
    one = graph()
    for _ in range(3):
        one.run({"x": np.ones((1, 3), np.float32)})
    assert calls == [1]


def test_runs_do_not_see_each_other():
    one = graph()
    first = one.run({"x": np.ones((1, 3), np.float32)})["out"]
    one.run({"x": np.zeros((1, 3), np.float32)})
    assert first.tolist() == [[2, 4]]


def test_values_are_let_go_of_behind_their_last_reader():
    (*_, add, relu) = graph()._nodes
    assert len(add.ended) == 2 - 1  # y, and not the bias
    assert len(relu.ended) == 1


def test_an_output_that_is_a_constant():
    found = graph([["Identity", ["bias"], ["out"], {}]]).run({"x": np.float32(0)})
    assert found["out"].tolist() == [-1, 1]


def test_an_unknown_operator_is_an_error():
    assert "Fft" not in OPERATORS
    with pytest.raises(KeyError, match="Fft"):
        graph([["Fft", ["x"], ["out"], {}]])
