"""Matrix products, convolutions, pooling and layer normalization of PyTorch in ONNX."""

from collections.abc import Mapping
from typing import Any

import torch

from regard.convert.recorded.arguments import arguments
from regard.convert.recorded.graph import Form, NoForm, ProgramGraph
from regard.decode.program.recorder import Node
from regard.decode.program.tree import Extent, Ref

__all__ = ["PRODUCTS"]


def _linear(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    found = g.put("MatMul", g.of(a["input"]), _turned(g, a["weight"]))
    return found if a["bias"] is None else g.put("Add", found, g.of(a["bias"]))


def _turned(g: ProgramGraph, weight: Ref) -> str:
    """A matrix with its two axes exchanged; a weight is stored as it is, and turned once."""
    key = ("turned", weight.index)
    if key not in g.kept:
        g.kept[key] = g.put("Transpose", g.of(weight), perm=[1, 0])
    return g.kept[key]


def _matmul(g: ProgramGraph, node: Node) -> str:
    return g.put("MatMul", g.of(node.args[0]), g.of(node.args[1]))


def _einsum(g: ProgramGraph, node: Node) -> str:
    equation, parts = node.args[:2]
    return g.put("Einsum", *(g.of(x) for x in parts), equation=equation)


def _addmm(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    if a["beta"] != 1 or a["alpha"] != 1:
        raise NoForm("factors")
    return g.put("Add", g.of(a["self"]), g.put("MatMul", g.of(node.args[1]), g.of(node.args[2])))


def _convolved(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    x, weight = a["input"], a["weight"]
    spread = g.rank(weight) - 2
    strides, dilations = (_each(a[name], spread) for name in ("stride", "dilation"))
    if isinstance(a["padding"], str):
        raise NoForm(f"padding {a['padding']!r}")
    pads = _each(a["padding"], spread)
    if g.rank(x) != spread + 2:
        raise NoForm("an input without a batch")
    read = g.of(x)
    if any(isinstance(n, Extent) for n in pads):  # an attribute is a number
        read = g.put("Pad", read, g.sizes([0, 0, *pads, 0, 0, *pads]), g.of(0.0))
        pads = [0] * spread
    inputs = [read, g.of(weight)] + ([] if a["bias"] is None else [g.of(a["bias"])])
    shape = g.shape(weight)[2:]
    known: dict[str, Any] = {}
    if all(isinstance(n, int) for n in shape):
        known["kernel_shape"] = list(shape)
    return g.put(
        "Conv",
        *inputs,
        strides=strides,
        pads=[*pads, *pads],
        dilations=dilations,
        group=a["groups"],
        **known,
    )


def _each(given: Any, count: int) -> list[int]:
    return list(given) * count if len(given) == 1 else list(given)


def _pooled(kind: str) -> Form:
    def form(g: ProgramGraph, node: Node) -> str:
        a = arguments(node)
        size = list(a["kernel_size"])
        spread = g.rank(a["self"]) - 2
        size = _each(size, spread)
        pads = _each(a["padding"], spread)
        if kind == "AveragePool" and any(pads) and a.get("count_include_pad") is False:
            raise NoForm("padding that is not counted")
        more: dict[str, Any] = {"count_include_pad": 1} if kind == "AveragePool" else {}
        return g.put(
            kind,
            g.of(a["self"]),
            kernel_shape=size,
            strides=_each(a["stride"] or size, spread),
            pads=[*pads, *pads],
            ceil_mode=int(bool(a["ceil_mode"])),
            **more,
        )

    return form


def _adaptive(g: ProgramGraph, node: Node) -> str:
    """Means over equal parts of the last two axes, whose sizes are known."""
    a = arguments(node)
    sizes = g.shape(a["self"])[-2:]
    steps = []
    for size, out in zip(sizes, a["output_size"], strict=True):
        if isinstance(size, Extent) or isinstance(out, Extent) or size % out:
            raise NoForm("parts of different sizes")
        steps.append(size // out)
    return g.put("AveragePool", g.of(a["self"]), kernel_shape=steps, strides=steps)


def _weight_norm(g: ProgramGraph, node: Node) -> str:
    """A weight by its direction v and its lengths g: g v / |v|."""
    a = arguments(node)
    v, lengths = g.of(a["v"]), g.of(a["g"])
    axes = [axis for axis in range(g.rank(a["v"])) if axis != g.axis(a["v"], a["dim"])]
    norm = g.put("ReduceL2", v, axes=axes, keepdims=1)
    return g.put("Mul", v, g.put("Div", lengths, norm))


def _layer_norm(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    axes = len(a["normalized_shape"])
    weight = a["weight"]
    if weight is None:
        scale = g.tensor(torch.ones([int(n) for n in a["normalized_shape"]]))
    else:
        scale = g.of(weight)
    more = [] if a["bias"] is None else [g.of(a["bias"])]
    return g.put("LayerNormalization", g.of(a["input"]), scale, *more, axis=-axes, epsilon=a["eps"])


PRODUCTS: Mapping[str, Form] = {
    "linear": _linear,
    "matmul": _matmul,
    "mm": _matmul,
    "bmm": _matmul,
    "einsum": _einsum,
    "addmm": _addmm,
    "conv1d": _convolved,
    "conv2d": _convolved,
    "conv3d": _convolved,
    "max_pool1d": _pooled("MaxPool"),
    "max_pool2d": _pooled("MaxPool"),
    "avg_pool1d": _pooled("AveragePool"),
    "avg_pool2d": _pooled("AveragePool"),
    "adaptive_avg_pool2d": _adaptive,
    "layer_norm": _layer_norm,
    "_weight_norm": _weight_norm,
}
"""The form of each operation, as in `operations.OPERATIONS`."""
