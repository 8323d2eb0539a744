"""Convolutions, pooling and padding of ONNX in NumPy, over one, two or three axes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

__all__ = ["WINDOWS"]

Array = NDArray[Any]


def _padded(x: Array, pads: Sequence[int], value: float = 0.0) -> Array:
    """With `pads` (before every axis, then behind every axis) of the last axes."""
    spread = len(pads) // 2
    if not any(pads):
        return x
    widths = [(0, 0)] * (x.ndim - spread) + [(pads[k], pads[spread + k]) for k in range(spread)]
    return np.pad(x, widths, constant_values=value)


def _windows(
    x: Array, shape: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Array:
    """The windows (N, C, *out, *shape) of x (N, C, *in)."""
    spread = len(shape)
    whole = [d * (k - 1) + 1 for k, d in zip(shape, dilations, strict=True)]
    axes = tuple(range(x.ndim - spread, x.ndim))
    found = sliding_window_view(x, whole, axes)
    where: list[Any] = [..., *(slice(None, None, s) for s in strides)]
    where += [slice(None, None, d) for d in dilations]
    return np.asarray(found[tuple(where)])


def _convolution(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
) -> Array:
    """From x (N, C, *in) and weight (M, C / group, *shape) to (N, M, *out)."""
    spread = weight.ndim - 2
    ones = [1] * spread
    x = _padded(x, pads or [0] * (2 * spread))
    windows = _windows(x, weight.shape[2:], strides or ones, dilations or ones)
    outs, each = weight.shape[0] // group, weight.shape[1]
    inner = [1, *range(2 + spread, 2 + 2 * spread)]
    parts = [
        np.tensordot(
            windows[:, g * each : (g + 1) * each],
            weight[g * outs : (g + 1) * outs],
            (inner, range(1, 2 + spread)),
        )
        for g in range(group)
    ]
    found = np.moveaxis(np.concatenate(parts, -1), -1, 1)
    return found if bias is None else found + bias.reshape(-1, *ones)


def _pooled(function: Callable[..., Any], outside: float) -> Callable[..., Array]:
    def operator(
        x: Array,
        *,
        kernel_shape: Sequence[int],
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        ceil_mode: int = 0,
        count_include_pad: int = 0,
    ) -> Array:
        spread = len(kernel_shape)
        ones = [1] * spread
        own = list(pads or [0] * (2 * spread))
        steps = strides or ones
        if ceil_mode:
            sizes = zip(x.shape[-spread:], kernel_shape, steps, strict=True)
            for k, (size, shape, step) in enumerate(sizes):
                own[spread + k] = _behind(size + own[k], own[spread + k], shape, step)
        if any(own) and function is np.mean and (ceil_mode or not count_include_pad):
            raise ValueError("means without their padding have no form in NumPy yet")
        windows = _windows(_padded(x, own, outside), kernel_shape, steps, ones)
        return np.asarray(function(windows, axis=tuple(range(-spread, 0))))

    return operator


def _behind(size: int, pad: int, shape: int, step: int) -> int:
    """The padding behind an axis with which its last window, which begins before it, is whole."""
    count = max(0, -((shape - size - pad) // step)) + 1
    count -= (count - 1) * step >= size
    return max(pad, (count - 1) * step + shape - size)


def _pad(x: Array, pads: Array, value: Array | None = None) -> Array:
    """`pads` of every axis: before each, then behind each."""
    return _padded(x, pads.tolist(), 0 if value is None else value.item())


WINDOWS: Mapping[str, Callable[..., Any]] = {
    "AveragePool": _pooled(np.mean, 0.0),
    "Conv": _convolution,
    "MaxPool": _pooled(np.max, -np.inf),
    "Pad": _pad,
}
"""The operators by their names."""
