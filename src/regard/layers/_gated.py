r"""The recurrence of a gated unit over a whole sequence, forward and backward written out.

Automatic differentiation would keep some fifteen small nodes a step and one product a step for the
gradient of the weights. Here a step back costs two small products, and the weights' gradient is one
product over all steps. With :math:`a = [a_r\, a_z\, a_n]` the part of the inputs, :math:`U` the
recurrent weights and
:math:`y` the part that the reset gate touches:

.. math::
    r, z = \sigma(a_{rz} + U_{rz} h), \quad
    \text{before: } n = \tanh(a_n + U_n (r \odot h)), \quad
    \text{after: } n = \tanh(a_n + r \odot (U_n h + i))

    h' = h + g \odot (n - h), \quad g = z \text{ ("take") or } 1 - z \text{ ("keep")}

Element-wise work and the state stay in the state's dtype (single precision under autocast): an
update of a bfloat16 state by less than 1/256 of itself would be lost. Products are done in the
inputs' dtype.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["recurrence"]


def recurrence(
    inputs: Tensor,
    state: Tensor,
    weight: Tensor,
    inside: Tensor | None = None,
    *,
    before: bool = True,
    keep: bool = True,
) -> Tensor:
    """Run a gated unit over all steps.

    Shapes:
        inputs (T, N, 3H) in the order r, z, n; state (N, H); weight (3H, H); inside (N, H) is i;
        the states after each step (T, N, H)
    """
    device = inputs.device.type
    if torch.is_autocast_enabled(device):
        inputs = inputs.to(torch.get_autocast_dtype(device))
    weight = weight.to(inputs.dtype)
    states: Tensor = _Recurrence.apply(  # type: ignore[no-untyped-call]
        inputs, state, weight, inside, before, keep
    )
    return states


def _tanh(x: Tensor) -> Tensor:
    """Take tanh in place; by the sigmoid on a CPU, where PyTorch's is five times faster."""
    if x.device.type != "cpu":
        return x.tanh_()
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        state: Tensor,
        weight: Tensor,
        inside: Tensor | None,
        before: bool,
        keep: bool,
    ) -> Tensor:
        steps, rows, _ = inputs.shape
        size = state.shape[-1]
        two, low = 2 * size, weight.dtype
        states = state.new_empty(steps, rows, size)
        gates = state.new_empty(steps, rows, two)  # r, z
        candidates = state.new_empty(steps, rows, size)  # n
        touched = state.new_empty(steps, rows, size)  # r * h (before) or U h + i (after)
        gate_weight, weight_n = weight[:two].t(), weight[two:].t()
        h = state
        for t in range(steps):
            a, n, y, gate = inputs[t], candidates[t], touched[t], gates[t]
            gate.copy_(torch.addmm(a[:, :two], h.to(low), gate_weight)).sigmoid_()
            r, z = gate[:, :size], gate[:, size:]
            if before:
                torch.mul(r, h, out=y)
                n.copy_(torch.addmm(a[:, two:], y.to(low), weight_n))
            else:
                y.copy_(h.to(low) @ weight_n)
                if inside is not None:
                    y += inside
                torch.addcmul(a[:, two:].to(y.dtype), r, y, out=n)
            _tanh(n)
            h = torch.lerp(n, h, z, out=states[t]) if keep else torch.lerp(h, n, z, out=states[t])
        ctx.save_for_backward(state, weight, states, gates, candidates, touched)
        ctx.before, ctx.keep, ctx.inside = before, keep, inside is not None
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        state, weight, states, gates, candidates, touched = ctx.saved_tensors
        steps, rows, size = states.shape
        two, low = 2 * size, weight.dtype
        before, keep = ctx.before, ctx.keep
        grads = grad.new_empty(steps, rows, 3 * size)  # of a
        grad_y = None if before else grad.new_empty(steps, rows, size)
        gate_weight, weight_n = weight[:two], weight[two:]
        dh = torch.zeros_like(state)
        for t in range(steps - 1, -1, -1):
            h = states[t - 1] if t else state
            n, y, gate, d = candidates[t], touched[t], gates[t], grads[t]
            r, z = gate[:, :size], gate[:, size:]
            dh = dh + grad[t]
            take = dh * z
            left = dh - take  # dh * (1 - z)
            past, new = (take, left) if keep else (left, take)  # gradients by lerp of h and of n
            d_n, d_r = d[:, two:], d[:, :size]
            d_z = dh * (h - n if keep else n - h)
            torch.mul(new, 1 - n * n, out=d_n)
            if before:
                dy = d_n.to(low) @ weight_n
                torch.mul(dy, h, out=d_r)
                past = past.addcmul_(dy.to(past.dtype), r)
            else:
                torch.mul(d_n, y, out=d_r)
                dy = torch.mul(d_n, r, out=grad_y[t])  # type: ignore[index]
                past = past.add_(dy.to(low) @ weight_n)
            d[:, size:two] = d_z
            d[:, :two] *= gate - gate * gate
            dh = past.add_(d[:, :two].to(low) @ gate_weight)
        earlier = torch.cat([state[None], states[:-1]]).to(low).flatten(0, 1)
        grads = grads.to(low)
        flat = grads.flatten(0, 1)
        if before:
            last = flat[:, two:].t() @ touched.to(low).flatten(0, 1)
        else:
            last = grad_y.to(low).flatten(0, 1).t() @ earlier  # type: ignore[union-attr]
        grad_weight = torch.cat([flat[:, :two].t() @ earlier, last])
        grad_inside = grad_y.sum(0) if ctx.inside and grad_y is not None else None
        return grads, dh, grad_weight, grad_inside, None, None
