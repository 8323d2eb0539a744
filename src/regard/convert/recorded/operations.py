"""Arithmetic, comparisons and reductions of PyTorch in ONNX.

A form is called with the graph and the node, and gives the name of the result. What a form does not
cover raises `NoForm` with the argument, which becomes one sentence of the export.
"""

from collections.abc import Mapping
from typing import Any

import torch

from regard.convert._graph import ACTIVATIONS
from regard.convert.recorded.arguments import arguments
from regard.convert.recorded.graph import Form, NoForm, ProgramGraph
from regard.decode.program.recorder import Node
from regard.decode.program.tree import Ref

__all__ = ["OPERATIONS"]

TINY = -1e30
"""In the place of minus infinity where an ONNX runtime would compute NaN of it."""


def _result(g: ProgramGraph, node: Node) -> torch.dtype:
    out = node.out if isinstance(node.out, Ref) else node.out[0]
    return g.dtype(out)


def _unary(kind: str) -> Form:
    def form(g: ProgramGraph, node: Node) -> str:
        return g.put(kind, g.of(node.args[0], _result(g, node)))

    return form


def _binary(kind: str) -> Form:
    """`add`, `sub`, `mul`, `maximum` …: both sides have the dtype of the result."""

    def form(g: ProgramGraph, node: Node) -> str:
        a = arguments(node)
        dtype = _result(g, node)
        left, right = g.of(a["self"], dtype), g.of(a["other"], dtype)
        if a.get("alpha", 1) != 1:
            right = g.put("Mul", right, g.of(a["alpha"], dtype))
        return g.put(kind, left, right)

    return form


def _subtracted_from(g: ProgramGraph, node: Node) -> str:
    """`rsub(x, y)`: y - x."""
    a, dtype = arguments(node), _result(g, node)
    if a.get("alpha", 1) != 1:
        raise NoForm("a multiple")
    return g.put("Sub", g.of(a["other"], dtype), g.of(a["self"], dtype))


def _logical(kind: str) -> Form:
    """`and`, `or`: of truth values."""

    def form(g: ProgramGraph, node: Node) -> str:
        if _result(g, node) != torch.bool:
            raise NoForm("whole numbers")
        return g.put(kind, *(g.of(x, torch.bool) for x in node.args[:2]))

    return form


def _comparison(kind: str, *, negated: bool = False) -> Form:
    def form(g: ProgramGraph, node: Node) -> str:
        left, right = node.args[:2]
        dtype = g.dtype(left)
        if isinstance(right, float) and not dtype.is_floating_point:
            dtype = torch.float32
        elif isinstance(right, Ref):
            dtype = torch.promote_types(dtype, g.dtype(right))
        if dtype == torch.bool:
            dtype = torch.int64
        found = g.put(kind, g.of(left, dtype), g.of(right, dtype))
        return g.put("Not", found) if negated else found

    return form


def _divided(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    dtype = _result(g, node)
    left, right = g.of(a["self"], dtype), g.of(a["other"], dtype)
    found = g.put("Div", left, right)
    mode = a.get("rounding_mode") or ("floor" if node.short == "floor_divide" else None)
    if mode is None:
        return found
    if dtype.is_floating_point:
        if mode == "trunc":
            raise NoForm("rounding towards zero")
        return g.put("Floor", found)
    if mode == "trunc":
        return found
    # Division of whole numbers goes towards zero in ONNX: one less where the signs differ.
    rest = g.put("Sub", left, g.put("Mul", found, right))
    off = g.put("And", g.put("Not", _same(g, rest, dtype)), _unlike(g, rest, right, dtype))
    return g.put("Sub", found, g.cast(off, dtype))


def _same(g: ProgramGraph, x: str, dtype: torch.dtype) -> str:
    return g.put("Equal", x, g.of(0, dtype))


def _unlike(g: ProgramGraph, x: str, y: str, dtype: torch.dtype) -> str:
    zero = g.of(0, dtype)
    return g.put("Xor", g.put("Less", x, zero), g.put("Less", y, zero))


def _power(g: ProgramGraph, node: Node) -> str:
    a, dtype = arguments(node), _result(g, node)
    return g.put("Pow", g.of(a["self"], dtype), g.of(a["exponent"], dtype))


def _square(g: ProgramGraph, node: Node) -> str:
    x = g.of(node.args[0])
    return g.put("Mul", x, x)


def _addcmul(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    product = g.put("Mul", g.of(a["tensor1"]), g.of(a["tensor2"]))
    if a["value"] != 1:
        product = g.put("Mul", product, g.of(a["value"], _result(g, node)))
    return g.put("Add", g.of(a["self"]), product)


def _silu(g: ProgramGraph, node: Node) -> str:
    return ACTIVATIONS["swish"](g, g.of(node.args[0]))


def _gelu(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    name = "gelu-tanh" if a["approximate"] == "tanh" else "gelu"
    return ACTIVATIONS[name](g, g.of(a["self"]))


def _elu(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    if a["scale"] != 1 or a["input_scale"] != 1:
        raise NoForm("scales")
    return g.put("Elu", g.of(a["self"]), alpha=float(a["alpha"]))


def _lerp(g: ProgramGraph, node: Node) -> str:
    """The way from x to y: x + w (y - x)."""
    a, dtype = arguments(node), _result(g, node)
    x, y, weight = (g.of(a[name], dtype) for name in ("self", "end", "weight"))
    return g.put("Add", x, g.put("Mul", weight, g.put("Sub", y, x)))


def _log_sigmoid(g: ProgramGraph, node: Node) -> str:
    return g.put("Neg", g.put("Softplus", g.put("Neg", g.of(node.args[0]))))


def _logaddexp(g: ProgramGraph, node: Node) -> str:
    """The larger, and log(1 + e^-|difference|); two infinities have no difference."""
    x, y = g.of(node.args[0]), g.of(node.args[1])
    high, low = g.put("Max", x, y), g.put("Min", x, y)
    apart = g.put("Sub", low, g.put("Max", high, g.of(TINY)))
    return g.put("Add", high, g.put("Softplus", g.put("Max", apart, g.of(TINY))))


def _glu(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    half = g.shape(node.out)[a["dim"]]
    x, gate = g.put_many(
        "Split",
        [g.of(a["self"]), g.sizes([half, half])],
        2,
        axis=g.axis(a["self"], a["dim"]),
    )
    return g.put("Mul", x, g.put("Sigmoid", gate))


def _clamp(g: ProgramGraph, node: Node) -> str:
    a, dtype = arguments(node), _result(g, node)
    found = g.of(a["self"], dtype)
    low, high = a.get("min"), a.get("max")
    if low is not None:
        found = g.put("Max", found, g.of(low, dtype))
    return found if high is None else g.put("Min", found, g.of(high, dtype))


def _where(g: ProgramGraph, node: Node) -> str:
    a, dtype = arguments(node), _result(g, node)
    return g.put("Where", g.of(a["condition"]), g.of(a["self"], dtype), g.of(a["other"], dtype))


def _masked_fill(g: ProgramGraph, node: Node) -> str:
    a, dtype = arguments(node), _result(g, node)
    return g.put("Where", g.of(a["mask"]), g.of(a["value"], dtype), g.of(a["self"], dtype))


# -- reductions


def _softmax(kind: str) -> Form:
    def form(g: ProgramGraph, node: Node) -> str:
        a = arguments(node)
        return g.put(kind, g.of(a["self"], _result(g, node)), axis=g.axis(a["self"], a["dim"]))

    return form


def _reduced(kind: str) -> Form:
    """`sum`, `mean`, `amax`, `amin`, `prod`: over some axes, or over all."""

    def form(g: ProgramGraph, node: Node) -> str:
        a, dtype = arguments(node), _result(g, node)
        if dtype == torch.bool:
            raise NoForm("truth values")
        axes = a.get("dim")
        axes = list(range(g.rank(a["self"]))) if axes in (None, []) else axes
        axes = [g.axis(a["self"], i) for i in ([axes] if isinstance(axes, int) else axes)]
        keep = int(bool(a.get("keepdim", False)))
        x = g.of(a["self"], dtype)
        if kind == "ReduceSum":
            return g.put(kind, x, g.constant(axes), keepdims=keep)
        return g.put(kind, x, axes=axes, keepdims=keep)

    return form


def _whole_or_pair(kind: str) -> Form:
    """`max(x)` of all, or `max(x, dim)` with the places."""
    reduced = _reduced(kind)

    def form(g: ProgramGraph, node: Node) -> Any:
        if isinstance(node.out, Ref):
            return _binary(kind[6:])(g, node) if len(node.args) > 1 else reduced(g, node)
        a = arguments(node)
        place = "ArgMax" if kind == "ReduceMax" else "ArgMin"
        axis, keep = g.axis(a["self"], a["dim"]), int(bool(a["keepdim"]))
        x = g.of(a["self"])
        return g.put(kind, x, axes=[axis], keepdims=keep), g.put(place, x, axis=axis, keepdims=keep)

    return form


def _ends(g: ProgramGraph, node: Node) -> tuple[str, str]:
    """`aminmax` of all."""
    a = arguments(node)
    if a["dim"] is not None:
        raise NoForm("one axis")
    axes, x = list(range(g.rank(a["self"]))), g.of(a["self"])
    return tuple(g.put(kind, x, axes=axes, keepdims=0) for kind in ("ReduceMin", "ReduceMax"))  # type: ignore[return-value]


def _truths(kind: str) -> Form:
    """`all` and `any`: the least and the largest of zeros and ones."""

    def form(g: ProgramGraph, node: Node) -> str:
        a = arguments(node)
        axes = a.get("dim")
        axes = list(range(g.rank(a["self"]))) if axes is None else axes
        axes = [g.axis(a["self"], i) for i in ([axes] if isinstance(axes, int) else axes)]
        x = g.cast(g.of(a["self"], torch.bool), torch.int32)
        keep = int(bool(a.get("keepdim", False)))
        return g.cast(g.put(kind, x, axes=axes, keepdims=keep), torch.bool)

    return form


def _argmax(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    if a["dim"] is None:
        raise NoForm("all axes")
    axis = g.axis(a["self"], a["dim"])
    return g.put("ArgMax", g.of(a["self"]), axis=axis, keepdims=int(a["keepdim"]))


def _cumsum(g: ProgramGraph, node: Node) -> str:
    a, dtype = arguments(node), _result(g, node)
    return g.put("CumSum", g.of(a["self"], dtype), g.of(g.axis(a["self"], a["dim"])))


def _topk(g: ProgramGraph, node: Node) -> list[str]:
    a = arguments(node)
    axis = g.axis(a["self"], a["dim"])
    return g.put_many(
        "TopK", [g.of(a["self"]), g.size(a["k"])], 2, axis=axis, largest=int(a["largest"])
    )


def _norm(g: ProgramGraph, node: Node) -> str:
    a = arguments(node)
    order = a.get("ord", a.get("p", 2))
    if order not in (2, 2.0, None):
        raise NoForm(f"order {order}")
    axes = a["dim"] if a["dim"] is not None else range(g.rank(a["self"]))
    axes = [g.axis(a["self"], i) for i in axes]
    return g.put("ReduceL2", g.of(a["self"]), axes=axes, keepdims=int(bool(a["keepdim"])))


OPERATIONS: Mapping[str, Form] = {
    "tanh": _unary("Tanh"),
    "sigmoid": _unary("Sigmoid"),
    "relu": _unary("Relu"),
    "exp": _unary("Exp"),
    "log": _unary("Log"),
    "sqrt": _unary("Sqrt"),
    "sin": _unary("Sin"),
    "cos": _unary("Cos"),
    "softplus": _unary("Softplus"),
    "abs": _unary("Abs"),
    "neg": _unary("Neg"),
    "floor": _unary("Floor"),
    "ceil": _unary("Ceil"),
    "erf": _unary("Erf"),
    "reciprocal": _unary("Reciprocal"),
    "bitwise_not": _unary("Not"),
    "logical_not": _unary("Not"),
    "silu": _silu,
    "gelu": _gelu,
    "glu": _glu,
    "elu": _elu,
    "lerp": _lerp,
    "log_sigmoid": _log_sigmoid,
    "logaddexp": _logaddexp,
    "add": _binary("Add"),
    "sub": _binary("Sub"),
    "rsub": _subtracted_from,
    "mul": _binary("Mul"),
    "div": _divided,
    "floor_divide": _divided,
    "pow": _power,
    "square": _square,
    "maximum": _binary("Max"),
    "minimum": _binary("Min"),
    "addcmul": _addcmul,
    "__and__": _logical("And"),
    "__iand__": _logical("And"),
    "bitwise_and": _logical("And"),
    "logical_and": _logical("And"),
    "__or__": _logical("Or"),
    "bitwise_or": _logical("Or"),
    "logical_or": _logical("Or"),
    "eq": _comparison("Equal"),
    "ne": _comparison("Equal", negated=True),
    "lt": _comparison("Less"),
    "le": _comparison("LessOrEqual"),
    "gt": _comparison("Greater"),
    "ge": _comparison("GreaterOrEqual"),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    "where": _where,
    "masked_fill": _masked_fill,
    "softmax": _softmax("Softmax"),
    "log_softmax": _softmax("LogSoftmax"),
    "sum": _reduced("ReduceSum"),
    "mean": _reduced("ReduceMean"),
    "amax": _reduced("ReduceMax"),
    "logsumexp": _reduced("ReduceLogSumExp"),
    "amin": _reduced("ReduceMin"),
    "max": _whole_or_pair("ReduceMax"),
    "min": _whole_or_pair("ReduceMin"),
    "aminmax": _ends,
    "all": _truths("ReduceMin"),
    "any": _truths("ReduceMax"),
    "argmax": _argmax,
    "cumsum": _cumsum,
    "topk": _topk,
    "linalg_vector_norm": _norm,
    "norm": _norm,
}
"""The form of each operation, by its name without overload and without the `_` of writing."""
