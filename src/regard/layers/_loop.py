"""A gated unit in a loop with attention between its steps.

Each step is one autograd node. The gradients of the weights are accumulated once per sequence: each
step stores its factors on a tape, and after the last step each weight gets one product over all
steps. See `_gated` for the equations.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.layers._gated import affine, tanh
from regard.native.derivatives import once_differentiable

__all__ = ["Loop"]

Piece = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


@dataclass
class _Tape:
    """The factors stored by the steps of one backward pass, and the form of the unit."""

    before: bool
    keep: bool
    pieces: list[Piece] = field(default_factory=list)
    run: int = -1

    def put(self, *piece: Tensor) -> None:
        """Store the factors of a step; drop those of an earlier backward pass."""
        run = torch._C._current_graph_task_id()  # two passes may share a kept graph
        if run != self.run:
            self.run, self.pieces = run, []
        self.pieces.append(piece)  # type: ignore[arg-type]

    def take(self) -> list[Tensor]:
        """The concatenated factors of all steps of this backward pass."""
        pieces = self.pieces if self.run == torch._C._current_graph_task_id() else []
        self.pieces = []
        return [torch.cat(parts) for parts in zip(*pieces, strict=True)]


class Loop:
    """Steps of one gated unit with a context: `state = loop(inputs, context, state)`.

    Args:
        weight: U (3H, H), rows of r, z and the candidate.
        context: C (3H, D).
        before, keep: as in `recurrence`.
        dtype: of the products.
    """

    def __init__(
        self, weight: Tensor, context: Tensor, *, before: bool, keep: bool, dtype: torch.dtype
    ) -> None:
        self.tape = _Tape(before, keep)
        self.weight, self.context = _Weights.apply(  # type: ignore[no-untyped-call]
            weight, context, dtype, self.tape
        )

    def __call__(self, inputs: Tensor, context: Tensor, state: Tensor) -> Tensor:
        """One step: inputs (N, 3H), context (N, D) and state (N, H) to the new state (N, H)."""
        context = context.to(self.context.dtype)
        new: Tensor = _Step.apply(  # type: ignore[no-untyped-call]
            inputs.to(self.weight.dtype), context, state, self.weight, self.context, self.tape
        )
        return new


class _Weights(torch.autograd.Function):
    """The identity for the weights; its backward computes their gradients from the tape."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, context: Tensor, dtype: torch.dtype, tape: _Tape
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.tape, ctx.dtypes = tape, (weight.dtype, context.dtype)
        return tuple(w.view_as(w) if w.dtype == dtype else w.to(dtype) for w in (weight, context))  # type: ignore[return-value]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        left = ctx.tape.take()
        if not left:
            return None, None, None, None
        d, states, contexts, met, reach = left
        two = d.shape[1] - reach.shape[1]
        weight = torch.cat([d[:, :two].t() @ states, reach.t() @ met])
        return weight.to(ctx.dtypes[0]), (d.t() @ contexts).to(ctx.dtypes[1]), None, None


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        context: Tensor,
        state: Tensor,
        weight: Tensor,
        context_weight: Tensor,
        tape: _Tape,
    ) -> Tensor:
        size = state.shape[1]
        two, low = 2 * size, state.to(weight.dtype)
        a = torch.addmm(inputs, context, context_weight.t())
        gate = affine(torch.empty_like(state).repeat(1, 2), a[:, :two], state, weight[:two].t())
        r, z = gate.sigmoid_().split(size, 1)
        if tape.before:
            y = r * state
            n = affine(torch.empty_like(state), a[:, two:], y, weight[two:].t())
        else:
            y = (low @ weight[two:].t()).to(state.dtype)
            n = torch.addcmul(a[:, two:].to(y.dtype), r, y)
        n = tanh(n, out=n)
        ctx.save_for_backward(context, state, weight, context_weight, gate, n, y)
        ctx.tape, ctx.dtype = tape, inputs.dtype
        return torch.lerp(n, state, z) if tape.keep else torch.lerp(state, n, z)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor) -> tuple[Tensor | None, ...]:
        context, h, weight, context_weight, gate, n, y = ctx.saved_tensors
        tape, half = ctx.tape, weight.dtype
        size = h.shape[1]
        two = 2 * size
        r, z = gate.split(size, 1)
        d = torch.empty(len(h), 3 * size, dtype=h.dtype, device=h.device)
        d_r, d_z, d_n = d.split(size, 1)
        taken = dh * z
        left = dh - taken
        past, new = (taken, left) if tape.keep else (left, taken)
        torch.mul(dh, h - n if tape.keep else n - h, out=d_z)
        torch.addcmul(new, new * n, n, value=-1, out=d_n)
        if tape.before:
            reach = d_n.to(half)
            met = y.to(half)
            dy = (reach @ weight[two:]).to(h.dtype)
            torch.mul(dy, h, out=d_r)
            past.addcmul_(dy, r)
        else:
            reach = (d_n * r).to(half)
            met = h.to(half)
            torch.mul(d_n, y, out=d_r)
            past.add_(reach @ weight[two:])
        d[:, :two].mul_(torch.addcmul(gate, gate, gate, value=-1))
        low = d.to(half)
        past.add_(low[:, :two] @ weight[:two])
        if ctx.needs_input_grad[3] or ctx.needs_input_grad[4]:
            tape.put(low, h.to(half), context, met, reach)
        return low, low @ context_weight, past, None, None, None
