r"""The recurrence of a gated unit over a whole sequence, forward and backward written out.

Automatic differentiation would keep some fifteen small nodes a step and one product a step for the
gradient of the weights. Here a step back costs two small products, and the weights' gradient is one
product over all steps. With :math:`a = [a_r\, a_z\, a_n]` the part of the inputs and :math:`U` the
recurrent weights:

.. math::
    r, z = \sigma(a_{rz} + U_{rz} h), \quad
    \text{before: } n = \tanh(a_n + U_n (r \odot h)), \quad
    \text{after: } n = \tanh(a_n + r \odot (U_n h + i))

    h' = h + g \odot (n - h), \quad g = z \text{ ("take") or } 1 - z \text{ ("keep")}

Element-wise work and the state stay in the weights' own dtype (single precision under autocast): an
update of a bfloat16 state by less than 1/256 of itself would be lost. Products are done in the
inputs' dtype. A first state of zero costs no product.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["recurrence"]


def recurrence(
    inputs: Tensor,
    state: Tensor | None,
    weight: Tensor,
    inside: Tensor | None = None,
    *,
    before: bool = True,
    keep: bool = True,
) -> Tensor:
    """Run a gated unit over all steps.

    Shapes:
        inputs (T, N, 3H) in the order r, z, n; state (N, H) or None for zeros; weight (3H, H);
        inside (N, H) is i; the states after each step (T, N, H)
    """
    device = inputs.device.type
    if torch.is_autocast_enabled(device):
        inputs = inputs.to(torch.get_autocast_dtype(device))
    states: Tensor = _Recurrence.apply(  # type: ignore[no-untyped-call]
        inputs, state, weight, inside, before, keep
    )
    return states


def _tanh(x: Tensor) -> Tensor:
    """Take tanh in place; by the sigmoid on a CPU, where PyTorch's is five times faster."""
    if x.device.type != "cpu":
        return x.tanh_()
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


def _affine(out: Tensor, onto: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`out = onto + a @ b`, the product in the dtype of b."""
    if out.dtype == b.dtype:
        return torch.addmm(onto, a, b, out=out)
    return out.copy_(torch.addmm(onto, a.to(b.dtype), b))


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        state: Tensor | None,
        weight: Tensor,
        inside: Tensor | None,
        before: bool,
        keep: bool,
    ) -> Tensor:
        steps, rows, _ = inputs.shape
        size = weight.shape[1]
        two, low = 2 * size, weight.to(inputs.dtype)
        gate_weight, weight_n = low[:two].t(), low[two:].t()
        states = weight.new_empty(steps, rows, size)
        gates = weight.new_empty(steps, rows, two)  # r, z
        candidates = weight.new_empty(steps, rows, size)  # n
        touched = weight.new_empty(steps, rows, size)  # r * h (before) or U h + i (after)
        h = weight.new_zeros(rows, size) if state is None else state.to(weight.dtype)
        for t in range(steps):
            a, n, y, gate = inputs[t], candidates[t], touched[t], gates[t]
            zero = t == 0 and state is None
            if zero:
                gate.copy_(a[:, :two])
            else:
                _affine(gate, a[:, :two], h, gate_weight)
            gate.sigmoid_()
            r, z = gate[:, :size], gate[:, size:]
            if before:
                torch.mul(r, h, out=y)
                if zero:
                    n.copy_(a[:, two:])
                else:
                    _affine(n, a[:, two:], y, weight_n)
            else:
                if zero:
                    y.zero_()
                else:
                    y.copy_(h.to(low.dtype) @ weight_n)
                if inside is not None:
                    y += inside
                torch.addcmul(a[:, two:].to(y.dtype), r, y, out=n)
            _tanh(n)
            h = torch.lerp(n, h, z, out=states[t]) if keep else torch.lerp(h, n, z, out=states[t])
        ctx.save_for_backward(state, low, states, gates, candidates, touched)
        ctx.before, ctx.keep = before, keep
        ctx.dtypes = [None if x is None else x.dtype for x in (inputs, state, weight, inside)]
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        state, low, states, gates, candidates, touched = ctx.saved_tensors
        steps, rows, size = states.shape
        two, half = 2 * size, low.dtype
        before, keep = ctx.before, ctx.keep
        inputs_dtype, state_dtype, weight_dtype, inside_dtype = ctx.dtypes
        grads = states.new_empty(steps, rows, 3 * size)  # of a
        reach = grads[..., two:]  # of what U_n multiplies
        if not before:
            reach = states.new_empty(steps, rows, size)
        gate_weight, weight_n = low[:two], low[two:]
        zeros = torch.zeros_like(states[0])
        dh = torch.zeros_like(zeros)
        for t in range(steps - 1, -1, -1):
            first = zeros if state is None else state
            h = states[t - 1] if t else first
            n, y, gate, d = candidates[t], touched[t], gates[t], grads[t]
            r, z = gate[:, :size], gate[:, size:]
            dh = dh + grad[t]
            taken = dh * z
            left = dh - taken  # dh * (1 - z)
            past, new = (taken, left) if keep else (left, taken)  # what the old h and n are owed
            torch.mul(dh, h - n if keep else n - h, out=d[:, size:two])
            torch.addcmul(new, new * n, n, value=-1, out=d[:, two:])
            further = t > 0 or state is not None
            if before:
                if further:
                    dy = (d[:, two:].to(half) @ weight_n).to(past.dtype)
                    torch.mul(dy, h, out=d[:, :size])
                    past.addcmul_(dy, r)
                else:
                    d[:, :size] = 0
            else:
                torch.mul(d[:, two:], y, out=d[:, :size])
                torch.mul(d[:, two:], r, out=reach[t])
                if further:
                    past.add_(reach[t].to(half) @ weight_n)
            d[:, :two].mul_(torch.addcmul(gate, gate, gate, value=-1))
            if further:
                dh = past.add_(d[:, :two].to(half) @ gate_weight)
        skip = 1 if state is None else 0  # no weight met a first state of zero
        earlier = states[:-1] if state is None else torch.cat([state[None].to(states), states[:-1]])
        earlier = earlier.to(half).flatten(0, 1)
        grads, reach = grads.to(inputs_dtype), reach.to(half)
        met = touched[skip:].to(half).flatten(0, 1) if before else earlier
        of_gates = grads[skip:, :, :two].to(half).flatten(0, 1).t() @ earlier
        of_n = reach[skip:].flatten(0, 1).t() @ met
        return (
            grads,
            None if state is None else dh.to(state_dtype),
            torch.cat([of_gates, of_n]).to(weight_dtype),
            None if inside_dtype is None else reach.sum(0).to(inside_dtype),
            None,
            None,
        )
