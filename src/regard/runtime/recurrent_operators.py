"""LSTM and GRU of ONNX in NumPy: all steps of all directions of one layer."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RECURRENT", "sigmoid"]

Array = NDArray[Any]


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without an exponential that is too large."""
    return 1 / (1 + np.exp(-np.maximum(x, -80)))  # e^80 is within float32


def _directions(direction: str) -> list[bool]:
    """Of each direction, whether it goes back."""
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]


def _walk(
    inputs: Array,
    back: bool,
    step: Callable[[Array, tuple[Array, ...]], tuple[Array, ...]],
    state: tuple[Array, ...],
    sizes: Array | None,
) -> tuple[Array, tuple[Array, ...]]:
    """The first state after each step (T, B, H), and the last states.

    Behind its size a sequence has zeros, and its state stays as it is.
    """
    order = range(len(inputs) - 1, -1, -1) if back else range(len(inputs))
    states = np.empty((len(inputs), *state[0].shape), inputs.dtype)
    for t in order:
        new = step(inputs[t], state)
        if sizes is None:
            state, states[t] = new, new[0]
        else:
            inside = t < sizes[:, None]
            state = tuple(np.where(inside, x, y) for x, y in zip(new, state, strict=True))
            states[t] = state[0] * inside
    return states, state


def _lstm(
    x: Array,
    read: Array,
    recurrent: Array,
    bias: Array | None = None,
    sizes: Array | None = None,
    h: Array | None = None,
    c: Array | None = None,
    *,
    hidden_size: int,
    direction: str = "forward",
) -> tuple[Array, Array, Array]:
    """Gates i, o, f, c: x (T, B, D) to states (T, sides, B, H), last h and c (sides, B, H)."""
    size = hidden_size
    outs, hs, cs = [], [], []
    for side, back in enumerate(_directions(direction)):
        inputs = x @ read[side].T
        if bias is not None:
            inputs = inputs + (bias[side, : 4 * size] + bias[side, 4 * size :])
        turned = recurrent[side].T

        def step(now: Array, state: tuple[Array, ...], turned: Array = turned) -> tuple[Array, ...]:
            gates = now + state[0] @ turned
            i, o, f = (sigmoid(gates[:, k * size : (k + 1) * size]) for k in range(3))
            cell = f * state[1] + i * np.tanh(gates[:, 3 * size :])
            return o * np.tanh(cell), cell

        begin = tuple(
            np.zeros((x.shape[1], size), x.dtype) if one is None else one[side] for one in (h, c)
        )
        states, last = _walk(inputs, back, step, begin, sizes)
        outs.append(states)
        hs.append(last[0])
        cs.append(last[1])
    return np.stack(outs, 1), np.stack(hs), np.stack(cs)


def _gru(
    x: Array,
    read: Array,
    recurrent: Array,
    bias: Array | None = None,
    sizes: Array | None = None,
    h: Array | None = None,
    *,
    hidden_size: int,
    direction: str = "forward",
    linear_before_reset: int = 0,
) -> tuple[Array, Array]:
    """Gates z, r, h with the reset behind the product: x (T, B, D) to states (T, sides, B, H)."""
    size = hidden_size
    outs, hs = [], []
    for side, back in enumerate(_directions(direction)):
        inputs, turned = x @ read[side].T, recurrent[side].T
        own = np.zeros(3 * size, x.dtype)
        if bias is not None:
            inputs = inputs + bias[side, : 3 * size]
            own = bias[side, 3 * size :]

        def step(
            now: Array, state: tuple[Array, ...], turned: Array = turned, own: Array = own
        ) -> tuple[Array, ...]:
            inner = state[0] @ turned + own
            z = sigmoid(now[:, :size] + inner[:, :size])
            r = sigmoid(now[:, size : 2 * size] + inner[:, size : 2 * size])
            new = np.tanh(now[:, 2 * size :] + r * inner[:, 2 * size :])
            return ((1 - z) * new + z * state[0],)

        begin = np.zeros((x.shape[1], size), x.dtype) if h is None else h[side]
        states, last = _walk(inputs, back, step, (begin,), sizes)
        outs.append(states)
        hs.append(last[0])
    return np.stack(outs, 1), np.stack(hs)


RECURRENT: Mapping[str, Callable[..., Any]] = {"LSTM": _lstm, "GRU": _gru}
"""The operators by their names; a GRU has `linear_before_reset`."""
