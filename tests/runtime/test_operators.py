"""Every operator in NumPy gives what onnxruntime gives for a model of that one node."""

import numpy as np
import pytest

from regard.convert._graph import FLOAT32, GraphNode, GraphValue, OnnxGraph, Subgraph
from regard.runtime.graph import OperatorGraph
from regard.runtime.operators import DTYPES, OPERATORS

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

RNG = np.random.default_rng(4)
NUMBERS = {np.dtype(kind): number for number, kind in DTYPES.items()}


def real(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def whole(*values):
    return np.array(values, np.int64)


X, Y = real(3, 4), real(3, 4)
MASK = X > 0
INFINITE = np.where(MASK, X, -np.inf).astype(np.float32)
POSITIVE = np.abs(X) + np.float32(0.1)
COUNTS = RNG.integers(-9, 9, (3, 4))
PICTURE = real(2, 4, 7, 6)
SEQUENCE = real(5, 2, 3)
PLACES = RNG.integers(0, 3, (2, 4))
HIDDEN = 4
SIZES = np.array([3, 5], np.int32)


def lstm(sides, sizes=None, **more):
    weights = [real(sides, 4 * HIDDEN, 3), real(sides, 4 * HIDDEN, HIDDEN), real(sides, 8 * HIDDEN)]
    states = [real(sides, 2, HIDDEN), real(sides, 2, HIDDEN)]
    return [SEQUENCE, *weights, sizes, *states], {"hidden_size": HIDDEN, **more}, 3


def gru(sides, sizes=None, **more):
    weights = [real(sides, 3 * HIDDEN, 3), real(sides, 3 * HIDDEN, HIDDEN), real(sides, 6 * HIDDEN)]
    inputs = [SEQUENCE, *weights, sizes, real(sides, 2, HIDDEN)]
    return inputs, {"hidden_size": HIDDEN, "linear_before_reset": 1, **more}, 2


UNARY = ("Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "Identity", "Neg", "Reciprocal", "Relu")
UNARY += ("Sigmoid", "Sin", "Softplus", "Tanh", "Elu")
BINARY = ("Add", "Sub", "Mul", "Max", "Min", "Equal", "Less", "LessOrEqual", "Greater")
BINARY += ("GreaterOrEqual",)
CASES = {
    **{name: (name, [X * 3], {}, 1) for name in UNARY},
    **{name: (name, [X, Y], {}, 1) for name in BINARY},
    **{f"{name} over rows": (name, [X, real(4)], {}, 1) for name in ("Add", "Mul", "Max")},
    **{f"{name} of truths": (name, [MASK, Y > 0], {}, 1) for name in ("And", "Or", "Xor")},
    **{f"{name} of axes": (name, [X], {"axes": [1], "keepdims": 0}, 1) for name in (
        "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL2", "ReduceLogSumExp")},
    **{f"{name} of all": (name, [X], {"axes": [0, 1], "keepdims": 1}, 1) for name in (
        "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL2", "ReduceLogSumExp")},
    **{f"{name} with axis": (name, [X], {"axis": 1, "keepdims": k}, 1)
       for k, name in enumerate(("ArgMax", "ArgMin"))},
    **{f"{name}, axis 0": (name, [X], {"axis": 0}, 1) for name in ("Softmax", "LogSoftmax")},
    **{f"{name}, some impossible": (name, [INFINITE], {"axis": 1}, 1)
       for name in ("Softmax", "LogSoftmax")},
    **{f"LSTM, {sides} sides": ("LSTM", *lstm(sides, direction=way))
       for sides, way in ((1, "forward"), (1, "reverse"), (2, "bidirectional"))},
    **{f"GRU, {sides} sides": ("GRU", *gru(sides, direction=way))
       for sides, way in ((1, "forward"), (1, "reverse"), (2, "bidirectional"))},
    **{f"{name} of different lengths, {way}": (name, *make(sides, SIZES, direction=way))
       for name, make in (("LSTM", lstm), ("GRU", gru))
       for sides, way in ((1, "forward"), (1, "reverse"), (2, "bidirectional"))},
    "Not": ("Not", [MASK], {}, 1),
    "Log": ("Log", [POSITIVE], {}, 1),
    "Sqrt": ("Sqrt", [POSITIVE], {}, 1),
    "Pow": ("Pow", [POSITIVE, Y], {}, 1),
    "Div": ("Div", [X, Y], {}, 1),
    "Div of whole numbers": ("Div", [COUNTS, whole(3)], {}, 1),
    "Div by less than zero": ("Div", [COUNTS, whole(-2)], {}, 1),
    "Elu, alpha": ("Elu", [X], {"alpha": 0.3}, 1),
    "Where": ("Where", [MASK, X, Y], {}, 1),
    "Cast to whole": ("Cast", [X * 9], {"to": 7}, 1),
    "Cast to truth": ("Cast", [COUNTS], {"to": 9}, 1),
    "ReduceSum": ("ReduceSum", [X, whole(0)], {"keepdims": 0}, 1),
    "ReduceSum of counts": ("ReduceSum", [COUNTS, whole(0, 1)], {"keepdims": 1}, 1),
    "CumSum": ("CumSum", [X, np.array(1)], {}, 1),
    "MatMul": ("MatMul", [real(2, 3, 4), real(4, 5)], {}, 1),
    "MatMul, batches": ("MatMul", [real(2, 1, 3, 4), real(5, 4, 2)], {}, 1),
    "Einsum": ("Einsum", [real(2, 3, 4), real(2, 4, 5)], {"equation": "bij,bjk->bki"}, 1),
    "LayerNormalization": ("LayerNormalization", [X, real(4), real(4)],
                           {"axis": -1, "epsilon": 1e-5}, 1),
    "LayerNormalization, two axes": ("LayerNormalization", [real(2, 3, 4), real(3, 4)],
                                     {"axis": -2, "epsilon": 1e-3}, 1),
    "TopK": ("TopK", [X, whole(3)], {"axis": 1}, 2),
    "TopK, least": ("TopK", [X, whole(2)], {"axis": 0, "largest": 0}, 2),
    "TopK, equal": ("TopK", [COUNTS // 4, whole(3)], {"axis": 1}, 2),
    "NonZero": ("NonZero", [MASK], {}, 1),
    "Range": ("Range", [np.array(1), np.array(9), np.array(2)], {}, 1),
    "Shape": ("Shape", [real(2, 3, 4)], {}, 1),
    "Reshape": ("Reshape", [X, whole(2, -1)], {}, 1),
    "Reshape, as it was": ("Reshape", [X, whole(0, 2, 2)], {}, 1),
    "Reshape to nothing": ("Reshape", [real(0, 4), whole(4, 0)], {"allowzero": 1}, 1),
    "Expand": ("Expand", [real(3, 1), whole(2, 1, 4)], {}, 1),
    "Tile": ("Tile", [X, whole(2, 3)], {}, 1),
    "Squeeze": ("Squeeze", [real(1, 3, 1), whole(2)], {}, 1),
    "Unsqueeze": ("Unsqueeze", [X, whole(0, 3)], {}, 1),
    "Transpose": ("Transpose", [real(2, 3, 4)], {"perm": [2, 0, 1]}, 1),
    "Concat": ("Concat", [X, Y, X], {"axis": 1}, 1),
    "Split": ("Split", [real(3, 7), whole(2, 0, 5)], {"axis": 1}, 3),
    "Slice": ("Slice", [real(5, 6), whole(1, -3), whole(4, 2**62), whole(0, 1)], {}, 1),
    "Slice, steps": ("Slice", [real(5, 6), whole(0), whole(2**62), whole(1), whole(2)], {}, 1),
    "Slice, backwards": ("Slice", [real(5, 6), whole(-1), whole(-(2**62)), whole(0), whole(-1)],
                         {}, 1),
    "Gather": ("Gather", [X, PLACES], {"axis": 0}, 1),
    "Gather, one": ("Gather", [X, np.array(-1)], {"axis": 1}, 1),
    "GatherElements": ("GatherElements", [X, PLACES], {"axis": 0}, 1),
    "GatherND": ("GatherND", [real(3, 4, 2), RNG.integers(0, 3, (5, 2))], {}, 1),
    "ScatterElements": ("ScatterElements", [X, whole(1, 0)[None], real(1, 2)], {"axis": 1}, 1),
    "ScatterElements, added": ("ScatterElements", [X, np.zeros((3, 2), np.int64), real(3, 2)],
                               {"axis": 1, "reduction": "add"}, 1),
    "ScatterND": ("ScatterND", [X, whole(2, 0)[:, None], real(2, 4)], {}, 1),
    "Pad": ("Pad", [X, whole(1, 0, 2, 3), np.array(-1, np.float32)], {}, 1),
    "Conv, one axis": ("Conv", [real(2, 4, 9), real(6, 4, 3), real(6)],
                       {"pads": [2, 1], "dilations": [2]}, 1),
    "Conv, two axes": ("Conv", [PICTURE, real(6, 2, 3, 2)],
                       {"group": 2, "strides": [2, 1], "pads": [1, 0, 1, 1]}, 1),
    "MaxPool": ("MaxPool", [PICTURE], {"kernel_shape": [2, 3], "strides": [2, 1],
                                       "pads": [1, 1, 0, 1]}, 1),
    "MaxPool, beyond the end": ("MaxPool", [real(2, 3, 8)],
                                {"kernel_shape": [3], "strides": [2], "ceil_mode": 1}, 1),
    "AveragePool": ("AveragePool", [PICTURE], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 0],
                                               "count_include_pad": 1}, 1),
}  # fmt: skip


def stored(node, inputs):
    attributes = dict(node.attributes)
    return {
        "inputs": inputs,
        "outputs": list(node.outputs),
        "nodes": [[node.kind, list(node.inputs), list(node.outputs), attributes]],
    }


@pytest.mark.parametrize("case", CASES)
def test_an_operator_is_onnxruntime_s(case):
    kind, values, attributes, count = CASES[case]
    names = ["" if one is None else f"x{k}" for k, one in enumerate(values)]
    given = {name: one for name, one in zip(names, values, strict=True) if name}
    outputs = [f"y{k}" for k in range(count)]
    graph = OnnxGraph(None)
    graph.nodes.append(GraphNode(kind, names, outputs, attributes))
    graph.inputs += [
        GraphValue(name, NUMBERS[one.dtype], list(one.shape)) for name, one in given.items()
    ]
    found = OperatorGraph(stored(graph.nodes[0], list(given)), {}).run(given)
    for name in outputs:
        shape = [f"{name}.{axis}" for axis in range(found[name].ndim)]
        graph.outputs.append(GraphValue(name, NUMBERS[found[name].dtype], shape))
    session = onnxruntime.InferenceSession(graph.model("one").SerializeToString())
    for name, expected in zip(outputs, session.run(outputs, given), strict=True):
        assert found[name].dtype == expected.dtype
        assert found[name].shape == expected.shape
        np.testing.assert_allclose(found[name], expected, atol=2e-6, rtol=2e-6)


def test_every_operator_has_a_case():
    assert set(OPERATORS) == {kind for kind, *_ in CASES.values()}


def test_means_that_leave_out_their_padding_are_refused():
    with pytest.raises(ValueError, match="without their padding"):
        OPERATORS["AveragePool"](PICTURE, kernel_shape=[2, 2], pads=[1, 1, 1, 1])


@pytest.mark.parametrize("back", [False, True])
def test_a_scan_is_onnxruntime_s(back):
    """Its steps read a weight of the graph around them."""
    body = [
        GraphNode("MatMul", ["state", "weight"], ["turned"], {}),
        GraphNode("Add", ["turned", "now"], ["sum"], {}),
        GraphNode("Tanh", ["sum"], ["next"], {}),
        GraphNode("Identity", ["next"], ["left"], {}),
    ]
    inputs, outputs = (
        [GraphValue(name, FLOAT32, None) for name in names]
        for names in (("state", "now"), ("next", "left"))
    )
    attributes = {"body": Subgraph("body", body, inputs, outputs), "num_scan_inputs": 1}
    if back:
        attributes |= {"scan_input_directions": [1], "scan_output_directions": [1]}
    graph = OnnxGraph(None)
    graph.constants["weight"] = real(4, 4)
    graph.nodes.append(GraphNode("Scan", ["begin", "x"], ["last", "all"], attributes))
    graph.inputs += [GraphValue("begin", FLOAT32, [2, 4]), GraphValue("x", FLOAT32, ["T", 2, 4])]
    graph.outputs += [GraphValue("last", FLOAT32, [2, 4]), GraphValue("all", FLOAT32, ["T", 2, 4])]
    plain = {
        "nodes": [[one.kind, one.inputs, one.outputs, {}] for one in body],
        "inputs": ["state", "now"],
        "outputs": ["next", "left"],
    }
    told = stored(graph.nodes[0], ["begin", "x"])
    told["nodes"][0][3] = {**attributes, "body": plain}
    given = {"begin": real(2, 4), "x": real(6, 2, 4)}
    found = OperatorGraph(told, graph.constants).run(given)
    session = onnxruntime.InferenceSession(graph.model("scan").SerializeToString())
    for name, expected in zip(("last", "all"), session.run(None, given), strict=True):
        np.testing.assert_allclose(found[name], expected, atol=1e-6)
