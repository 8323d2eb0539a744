"""Operators of ONNX (opset 17) in NumPy: what `regard export --to program` writes is made of them.

An operator is called with the values that it reads, None where an optional one is left out, and
with its attributes; it gives an array, or a tuple of them. Values keep their dtype, as in ONNX.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.runtime.recurrent_operators import RECURRENT, sigmoid
from regard.runtime.window_operators import WINDOWS

__all__ = ["OPERATORS", "Array", "Operator", "log_softmax", "softmax"]

Array = NDArray[Any]
Operator = Callable[..., Any]

DTYPES: Mapping[int, type] = {
    1: np.float32,
    2: np.uint8,
    3: np.int8,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
    11: np.float64,
}
"""Dtypes by their numbers in ONNX."""


def _softplus(x: Array) -> Array:
    found: Array = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    return found


def _elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _erf(x: Array) -> Array:
    from math import erf

    found: Array = np.vectorize(erf, otypes=[np.float64])(x).astype(x.dtype)
    return found


def softmax(x: Array, axis: int = -1) -> Array:
    """Shares along an axis."""
    shares: Array = np.exp(x - x.max(axis, keepdims=True))
    shares /= shares.sum(axis, keepdims=True)
    return shares


def log_softmax(x: Array, axis: int = -1) -> Array:
    """Logarithms of the shares along an axis."""
    shifted: Array = x - x.max(axis, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis, keepdims=True))
    return shifted


def _divide(x: Array, y: Array) -> Array:
    """The quotient; of whole numbers towards zero."""
    if x.dtype.kind == "f":
        return np.asarray(x / y)
    return np.asarray(np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y)), x.dtype)


def _reduced(function: Callable[..., Any]) -> Operator:
    """A reduction; its axes are an attribute, or with opset 13 an input."""

    def operator(
        x: Array,
        given: Array | None = None,
        axes: Sequence[int] | None = None,
        keepdims: int = 1,
    ) -> Array:
        over = tuple(given.tolist()) if given is not None else None if axes is None else tuple(axes)
        found: Array = np.asarray(function(x, axis=over, keepdims=bool(keepdims)))
        return found.astype(x.dtype, copy=False)

    return operator


def _l2(x: Array, axis: Any, keepdims: bool) -> Array:
    return np.asarray(np.sqrt(np.square(x).sum(axis=axis, keepdims=keepdims)))


def _log_sum_exp(x: Array, axis: Any, keepdims: bool) -> Array:
    most = x.max(axis=axis, keepdims=True)
    most = np.where(np.isfinite(most), most, 0)  # of minus infinity alone it is that
    found = np.log(np.exp(x - most).sum(axis=axis, keepdims=True)) + most
    return np.asarray(found if keepdims else found.squeeze(axis))


def _place(function: Callable[..., Any]) -> Operator:
    def operator(x: Array, axis: int = 0, keepdims: int = 1) -> Array:
        found = function(x, axis=axis)
        return np.expand_dims(found, axis) if keepdims else np.asarray(found)

    return operator


def _layer_norm(
    x: Array, scale: Array, bias: Array | None = None, axis: int = -1, epsilon: float = 1e-5
) -> Array:
    axes = tuple(range(axis % x.ndim, x.ndim))
    centered = x - x.mean(axes, keepdims=True)
    spread = np.square(centered).mean(axes, keepdims=True)
    found: Array = centered / np.sqrt(spread + np.float32(epsilon)) * scale
    return found if bias is None else found + bias


def _top(
    x: Array, count: Array, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Array, Array]:
    """The largest or least, in order; among equals the first comes first."""
    order = np.argsort(-x if largest else x, axis=axis, kind="stable")
    places = order.take(range(int(count[0])), axis=axis)
    return np.take_along_axis(x, places, axis), places.astype(np.int64)


# -- shapes


def _reshape(x: Array, shape: Array, allowzero: int = 0) -> Array:
    sizes = shape.tolist()
    if not allowzero:
        sizes = [size or x.shape[axis] for axis, size in enumerate(sizes)]
    return x.reshape(sizes)


def _expand(x: Array, shape: Array) -> Array:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist())))


def _squeeze(x: Array, axes: Array | None = None) -> Array:
    return x.squeeze(None if axes is None else tuple(axes.tolist()))


def _unsqueeze(x: Array, axes: Array) -> Array:
    return np.expand_dims(x, tuple(axes.tolist()))


def _transpose(x: Array, perm: Sequence[int] | None = None) -> Array:
    return x.transpose(perm)


def _concatenate(*parts: Array, axis: int) -> Array:
    return np.concatenate(parts, axis)


def _split(
    x: Array, sizes: Array | None = None, axis: int = 0, num_outputs: int = 1
) -> tuple[Array, ...]:
    if sizes is None:
        return tuple(np.split(x, num_outputs, axis))
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def _slice(
    x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Array:
    where = [slice(None)] * x.ndim
    over = range(len(starts)) if axes is None else axes.tolist()
    by = [1] * len(starts) if steps is None else steps.tolist()
    for axis, start, end, step in zip(over, starts.tolist(), ends.tolist(), by, strict=True):
        # An end far below zero is before the first item.
        past = step < 0 and end < -x.shape[axis]
        where[axis] = slice(start, None if past else end, step)
    return x[tuple(where)]


def _gather(x: Array, places: Array, axis: int = 0) -> Array:
    return x.take(places, axis)


def _gather_each(x: Array, places: Array, axis: int = 0) -> Array:
    return np.take_along_axis(x, places, axis)


def _gather_nd(x: Array, places: Array) -> Array:
    found: Array = x[tuple(np.moveaxis(places, -1, 0))]
    return found


def _scatter_each(
    x: Array, places: Array, values: Array, axis: int = 0, reduction: str = "none"
) -> Array:
    found = x.copy()
    where: list[Array] = list(np.indices(places.shape, sparse=True))
    where[axis] = places
    if reduction == "add":
        np.add.at(found, tuple(where), values)
    else:
        found[tuple(where)] = values
    return found


def _scatter_nd(x: Array, places: Array, values: Array) -> Array:
    found = x.copy()
    found[tuple(np.moveaxis(places, -1, 0))] = values
    return found


def _cumulative(x: Array, axis: Array) -> Array:
    return x.cumsum(int(axis)).astype(x.dtype, copy=False)


def _cast(x: Array, to: int) -> Array:
    return x.astype(DTYPES[to])


def _range(start: Array, end: Array, step: Array) -> Array:
    return np.arange(int(start), int(end), int(step))


OPERATORS: Mapping[str, Operator] = {
    **RECURRENT,
    **WINDOWS,
    "Abs": np.abs,
    "Add": np.add,
    "And": np.logical_and,
    "ArgMax": _place(np.argmax),
    "ArgMin": _place(np.argmin),
    "Cast": _cast,
    "Ceil": np.ceil,
    "Concat": _concatenate,
    "Cos": np.cos,
    "CumSum": _cumulative,
    "Div": _divide,
    "Einsum": lambda *parts, equation: np.einsum(equation, *parts, optimize=True),
    "Elu": _elu,
    "Equal": np.equal,
    "Erf": _erf,
    "Exp": np.exp,
    "Expand": _expand,
    "Floor": np.floor,
    "Gather": _gather,
    "GatherElements": _gather_each,
    "GatherND": _gather_nd,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Identity": lambda x: x,
    "LayerNormalization": _layer_norm,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Log": np.log,
    "LogSoftmax": log_softmax,
    "MatMul": np.matmul,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Neg": np.negative,
    "NonZero": lambda x: np.stack(np.nonzero(x)).astype(np.int64),
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Pow": np.power,
    "Range": _range,
    "Reciprocal": np.reciprocal,
    "ReduceL2": _reduced(_l2),
    "ReduceLogSumExp": _reduced(_log_sum_exp),
    "ReduceMax": _reduced(np.max),
    "ReduceMean": _reduced(np.mean),
    "ReduceMin": _reduced(np.min),
    "ReduceSum": _reduced(np.sum),
    "Relu": lambda x: np.maximum(x, 0),
    "Reshape": _reshape,
    "ScatterElements": _scatter_each,
    "ScatterND": _scatter_nd,
    "Shape": lambda x: np.array(x.shape, np.int64),
    "Sigmoid": sigmoid,
    "Sin": np.sin,
    "Slice": _slice,
    "Softmax": softmax,
    "Softplus": _softplus,
    "Split": _split,
    "Sqrt": np.sqrt,
    "Squeeze": _squeeze,
    "Sub": np.subtract,
    "Tanh": np.tanh,
    "Tile": lambda x, counts: np.tile(x, counts),
    "TopK": _top,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": np.where,
    "Xor": np.logical_xor,
}
"""Every operator by its name."""
