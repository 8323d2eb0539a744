"""The steps of a gated unit in C, forward and backward; `gated.c` says how.

A step of a small unit is a dozen small operations of PyTorch, which take longer to call than to
compute. Here all steps are one call (`benchmarks/gated.py`).
"""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from regard import native
from regard.native.followed import followed
from regard.native.gate import Function, Struct

__all__ = ["backward", "forward", "supported"]

_CALL = Struct(
    "gated_call", "steps = t", "rows = n", "hidden = h", "words = w", "inputs: f32 [x y g] last",
    "in_step: long", "in_row: long", "state: f32 [n h]", "inside: f32? [n h]",
    "weight: f32 [{3 * h} h]", "sizes: i64 [t]", "offsets: i64 [t]", "states: f32 [w h] out",
    "gates: f32 [w {2 * h}] out", "candidates: f32 [w h] out", "touched: f32 [w h] out",
    "grad: f32? [w h]", "grads: f32? [w {3 * h}] out", "reach: f32? [w h] out",
    "first: f32? [n h] out", "begun: long", "before: long", "keep: long", "failed: long",
    "packed: address",
)  # fmt: skip
MOST = 384
"""The most units that C runs: above it a panel of the weights no longer fits into the first cache,
and PyTorch's products are faster."""
_FORWARD = Function("regard_gated", "call: struct gated_call", "threads: threads")
_BACKWARD = Function("regard_gated_backward", "call: struct gated_call", "threads: threads")


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
    inputs: Tensor,
    state: Tensor | None,
    weight: Tensor,
    inside: Tensor | None,
    before: bool,
    keep: bool,
    sizes: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """States (W, H), gates (W, 2H), candidates (W, H) and touched (W, H) of `sum(sizes)` = W rows.

    Shapes:
        inputs (T, N, 3H) or (W, 3H), state and inside (N, H), weight (3H, H)
    """
    size, count = weight.shape[1], sum(sizes)
    made = [inputs.new_empty(count, n * size) for n in (1, 2, 1, 1)]
    rest = (*made, None, None, None, None)
    _FORWARD(_call(inputs, state, weight, inside, sizes, rest, before, keep), _threads(count, size))
    return made[0], made[1], made[2], made[3]


def backward(
    grad: Tensor,
    state: Tensor | None,
    weight: Tensor,
    states: Tensor,
    gates: Tensor,
    candidates: Tensor,
    touched: Tensor,
    before: bool,
    keep: bool,
    sizes: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of the inputs (W, 3H), of what U_n multiplies (W, H), of the first state (N, H)."""
    count, size = states.shape
    grads = states.new_empty(count, 3 * size)
    reach = None if before else states.new_empty(count, size)
    first = (
        None if state is None else torch.empty_like(state, memory_format=torch.contiguous_format)
    )
    rest = (states, gates, candidates, touched, grad.contiguous(), grads, reach, first)
    call = _call(grads, state, weight, None, sizes, rest, before, keep)
    _BACKWARD(call, _threads(count, size))
    return grads, grads[:, 2 * size :] if reach is None else reach, first


def _call(
    inputs: Tensor,
    state: Tensor | None,
    weight: Tensor,
    inside: Tensor | None,
    sizes: Sequence[int],
    rest: tuple[Tensor | None, ...],
    before: bool,
    keep: bool,
) -> object:
    if inputs.stride(-1) != 1:
        inputs = inputs.contiguous()
    dense = inputs.dim() == 3
    step, row = (inputs.stride(0), inputs.stride(1)) if dense else (0, inputs.stride(0))
    if dense and step == 0:  # expanded over the steps
        inputs = inputs.contiguous()
        step, row = inputs.stride(0), inputs.stride(1)
    offsets = torch.tensor([0, *accumulate(sizes[:-1])])
    begun = state is not None
    state = inputs.new_zeros(sizes[0], weight.shape[1]) if state is None else state.contiguous()
    inside = None if inside is None else inside.contiguous()
    return _CALL(
        inputs if dense else inputs[:, None], step, row, state, inside, weight.contiguous(),
        torch.tensor(sizes), offsets, *rest, int(begun), int(before), int(keep), 0, None,
    )  # fmt: skip


def _threads(count: int, size: int) -> int:
    return native.threads(count * size * size // 8)
