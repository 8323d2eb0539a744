"""The steps of a gated unit in C, forward and backward; `gated.c` says how.

A step of a small unit is a dozen small operations of PyTorch, which take longer to call than to
compute. Here all steps are one call (`benchmarks/gated.py`).
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from regard import native
from regard.native.gate import Function, Struct
from regard.native.transforms import followed

__all__ = ["Saved", "Unit", "backward", "forward", "supported"]

_CALL = Struct(
    "gated_call",
    "steps = t",
    "rows = n",
    "hidden = h",
    "words = w",
    "state: f32 [n h]",
    "inside: f32? [n h]",
    "weight: f32 [{3 * h} h]",
    "inputs: f32 [x y {3 * h}] last",
    "in_count = x",
    "in_each = y",
    "in_step = stride inputs 0",
    "in_row = stride inputs 1",
    "sizes: i64 [t]",
    "offsets: i64 [t]",
    "states: f32 [w h] out",
    "gates: f32 [w {2 * h}] out",
    "candidates: f32 [w h] out",
    "touched: f32 [w h] out",
    "grad: f32? [w h]",
    "grads: f32? [w {3 * h}] out",
    "reach: f32? [w h] out",
    "first: f32? [n h] out",
    "begun: long",
    "before: long",
    "keep: long",
    "failed: long",
    "packed: address",
)
_FORWARD = Function("regard_gated", "call: struct gated_call", "threads: threads")
_BACKWARD = Function("regard_gated_backward", "call: struct gated_call", "threads: threads")
MOST = 384
"""The most units that C runs: above it a panel of the weights no longer fits into the first cache,
and PyTorch's products are faster."""


class Unit(NamedTuple):
    """Which gated unit it is, and how many rows each step has; see `layers._gated.recurrence`."""

    before: bool
    keep: bool
    sizes: Sequence[int]


class Saved(NamedTuple):
    """What a forward pass gives and its backward pass reads, for W = `sum(sizes)` rows.

    Shapes:
        states (W, H), gates r and z (W, 2H), candidates n (W, H), touched (W, H): r * h (before)
        or U h + i (after)
    """

    states: Tensor
    gates: Tensor
    candidates: Tensor
    touched: Tensor


def supported(inputs: Tensor, state: Tensor | None, weight: Tensor, inside: Tensor | None) -> bool:
    """Whether C runs these: float32 on the CPU, all of them, and not too many units."""
    return (
        weight.shape[1] <= MOST
        and not torch.compiler.is_compiling()
        and all(
            x is None or (x.is_cpu and x.dtype == torch.float32)
            for x in (inputs, state, weight, inside)
        )
        and followed(inputs, state, weight) is None
        and native.unavailable_reason(_FORWARD.name) is None
    )


def forward(
    inputs: Tensor, state: Tensor | None, weight: Tensor, inside: Tensor | None, unit: Unit
) -> Saved:
    """All steps.

    Shapes:
        inputs (T, N, 3H) or (W, 3H), state and inside (N, H), weight (3H, H)
    """
    size, count = weight.shape[1], sum(unit.sizes)
    made = Saved(*(inputs.new_empty(count, n * size) for n in (1, 2, 1, 1)))
    call = _call(inputs, state, weight, inside, unit, (*made, None, None, None, None))
    _FORWARD(call, _threads(made.states))
    return made


def backward(
    grad: Tensor, state: Tensor | None, weight: Tensor, saved: Saved, unit: Unit
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the inputs (W, 3H), of what U_n multiplies (W, H), of the first state (N, H).

    The last one is of use only where there is a first state.
    """
    count, size = saved.states.shape
    grads = grad.new_empty(count, 3 * size)
    reach = None if unit.before else grad.new_empty(count, size)
    first = grad.new_empty(unit.sizes[0], size)
    rest = (*saved, grad.contiguous(), grads, reach, first)
    _BACKWARD(_call(grads, state, weight, None, unit, rest), _threads(saved.states))
    return grads, grads[:, 2 * size :] if reach is None else reach, first


def _call(
    inputs: Tensor,
    state: Tensor | None,
    weight: Tensor,
    inside: Tensor | None,
    unit: Unit,
    rest: tuple[Tensor | None, ...],
) -> object:
    if inputs.stride(-1) != 1:
        inputs = inputs.contiguous()
    begun = state is not None
    state = inputs.new_zeros(unit.sizes[0], weight.shape[1]) if state is None else state
    return _CALL(
        state.contiguous(),
        None if inside is None else inside.contiguous(),
        weight.contiguous(),
        inputs if inputs.dim() == 3 else inputs[:, None],
        torch.tensor(unit.sizes),
        torch.tensor([0, *accumulate(unit.sizes[:-1])]),
        *rest,
        int(begun),
        int(unit.before),
        int(unit.keep),
        0,
        None,
    )


def _threads(states: Tensor) -> int:
    return native.threads(states.numel() * states.shape[1] // 8)
