r"""The recurrence of a gated unit over a whole sequence, with an explicit backward pass.

Autograd would store about fifteen small nodes per step and compute one product per step for the
gradient of the weights. Here a backward step costs two small products, and the weights' gradient is
one product over all steps. With :math:`a = [a_r\, a_z\, a_n]` the part of the inputs and :math:`U`
the recurrent weights:

.. math::
    r, z = \sigma(a_{rz} + U_{rz} h), \quad
    \text{before: } n = \tanh(a_n + U_n (r \odot h)), \quad
    \text{after: } n = \tanh(a_n + r \odot (U_n h + i))

    h' = h + g \odot (n - h), \quad g = z \text{ ("take") or } 1 - z \text{ ("keep")}

Element-wise operations and the state use the weights' dtype (float32 under autocast), because a
bfloat16 state would lose updates of less than 1/256 of itself. Products use the inputs' dtype. An
initial state of zero costs no product.

Sequences of different lengths need no padding: sorted from the longest to the shortest, the first
`sizes[t]` of them have a step t, and the rows of all steps lie behind each other (`layers.packed`).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.native import gated as c
from regard.native.derivatives import once_differentiable
from regard.native.gated import Saved, Unit
from regard.native.operation import operation

__all__ = ["affine", "recurrence", "tanh"]

STEPS = 4
"""The fewest steps that C runs: it packs the weights once a call."""


@operation("recurrence")
def recurrence(
    inputs: Tensor,
    state: Tensor | None,
    weight: Tensor,
    inside: Tensor | None = None,
    *,
    before: bool = True,
    keep: bool = True,
    sizes: Sequence[int] | None = None,
) -> Tensor:
    """Run a gated unit over all steps.

    Args:
        sizes: how many rows have each step, never more than the step before; not given: all.

    Shapes:
        inputs (T, N, 3H) in the order r, z, n; state (N, H) or None for zeros; weight (3H, H);
        inside (N, H) is i; the states after each step (T, N, H). With `sizes`, inputs
        (sum of sizes, 3H) to states (sum of sizes, H)
    """
    device = inputs.device.type
    if torch.is_autocast_enabled(device):
        inputs = inputs.to(torch.get_autocast_dtype(device))
    shape = inputs.shape[:-1]
    rows = [shape[1]] * shape[0] if sizes is None else sizes
    if not inputs.numel():  # no step: zeros of that shape, which keep the graph
        return inputs[..., : weight.shape[1]] * weight.sum()
    states: Tensor = _Recurrence.apply(  # type: ignore[no-untyped-call]
        inputs, state, weight, inside, Unit(before, keep, rows)
    )
    return states.view(*shape, -1)


def tanh(x: Tensor, out: Tensor | None = None) -> Tensor:
    """Tanh without a gradient; `out` may be x.

    On a CPU by the sigmoid. PyTorch's own is MKL's there: on Intel's processors it takes a third to
    a seventh of the time, but its last digits depend on what stands beside a number, so that an
    answer would depend on its batch.
    """
    if x.device.type != "cpu":
        return torch.tanh(x, out=out)
    return torch.mul(x, 2, out=out).sigmoid_().mul_(2).sub_(1)


def affine(out: Tensor, onto: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`out = onto + a @ b`, the product in the dtype of b."""
    if out.dtype == b.dtype:
        return torch.addmm(onto, a, b, out=out)
    return out.copy_(torch.addmm(onto, a.to(b.dtype), b))


def _product(out: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`out = a @ b`, the product in the dtype of b."""
    if out.dtype == b.dtype:
        return torch.mm(a, b, out=out)
    return out.copy_(a.to(b.dtype) @ b)


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        state: Tensor | None,
        weight: Tensor,
        inside: Tensor | None,
        unit: Unit,
    ) -> Tensor:
        low = weight.to(inputs.dtype)
        ctx.c = len(unit.sizes) >= STEPS and c.supported(inputs, state, weight, inside)
        if ctx.c:
            made = c.forward(inputs, state, weight, inside, unit)
        else:
            made = _forward(inputs, state, weight, low, inside, unit)
        ctx.save_for_backward(state, low, *made)
        ctx.unit, ctx.shape = unit, inputs.shape
        ctx.dtypes = [None if x is None else x.dtype for x in (inputs, state, weight, inside)]
        return made.states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        state, low, *tensors = ctx.saved_tensors
        saved, unit = Saved(*tensors), ctx.unit
        states, sizes = saved.states, unit.sizes
        rows, size, half = sizes[0], states.shape[1], low.dtype
        inputs_dtype, state_dtype, weight_dtype, inside_dtype = ctx.dtypes
        first = states.new_zeros(rows, size) if state is None else state
        if sizes[-1] == rows:
            earlier = torch.cat([first, states[:-rows]])
        else:
            known = zip(states.split(sizes), sizes[1:], strict=False)
            earlier = torch.cat([first, *(h[:n] for h, n in known)])
        if ctx.c:
            grads, reach, dh = c.backward(grad, state, low, saved, unit)
        else:
            grads, reach, dh = _backward(grad, low, saved, earlier, state is None, unit)
        skip = rows if state is None else 0  # no weight met a first state of zero
        earlier = earlier[skip:].to(half)
        grads, reach = grads.to(inputs_dtype), reach.to(half)
        met = saved.touched[skip:].to(half) if unit.before else earlier
        of_gates = grads[skip:, : 2 * size].to(half).t() @ earlier
        of_n = reach[skip:].t() @ met
        inside = None
        if inside_dtype is not None:
            inside = reach.view(len(sizes), rows, -1).sum(0).to(inside_dtype)
        return (
            grads.view(ctx.shape),
            None if state is None else dh.to(state_dtype),
            torch.cat([of_gates, of_n]).to(weight_dtype),
            inside,
            None,
        )


def _forward(
    inputs: Tensor,
    state: Tensor | None,
    weight: Tensor,
    low: Tensor,
    inside: Tensor | None,
    unit: Unit,
) -> Saved:
    """All steps by PyTorch's operators; `low` is `weight` in the dtype of the inputs."""
    before, keep, sizes = unit
    count, rows, size = sum(sizes), sizes[0], weight.shape[1]
    two = 2 * size
    gate_weight, weight_n = low[:two].t(), low[two:].t()
    states = weight.new_empty(count, size)
    gates = weight.new_empty(count, two)  # r, z
    candidates = weight.new_empty(count, size)  # n
    touched = weight.new_empty(count, size)  # r * h (before) or U h + i (after)
    h = weight.new_zeros(rows, size) if state is None else state.to(weight.dtype)
    rz, zs = gates.split(sizes), gates[:, size:].split(sizes)
    rs, ns, ys, news = (x.split(sizes) for x in (gates[:, :size], candidates, touched, states))
    steps = inputs.unbind(0) if inputs.dim() == 3 else inputs.split(sizes)
    of_gates, of_n = [x[:, :two] for x in steps], [x[:, two:] for x in steps]
    for t, (gate, r, n, y) in enumerate(zip(rz, rs, ns, ys, strict=True)):
        zero = t == 0 and state is None
        if sizes[t] < len(h):  # the others have ended
            h = h[: sizes[t]]
        if zero:
            gate.copy_(of_gates[t])
        else:
            affine(gate, of_gates[t], h, gate_weight)
        gate.sigmoid_()
        if before:
            torch.mul(r, h, out=y)
            if zero:
                n.copy_(of_n[t])
            else:
                affine(n, of_n[t], y, weight_n)
        else:
            if zero:
                y.zero_()
            else:
                _product(y, h, weight_n)
            if inside is not None:
                y += inside[: sizes[t]]
            torch.addcmul(of_n[t].to(y.dtype), r, y, out=n)
        tanh(n, out=n)
        new = news[t]
        h = torch.lerp(n, h, zs[t], out=new) if keep else torch.lerp(h, n, zs[t], out=new)
    return Saved(states, gates, candidates, touched)


def _backward(
    grad: Tensor,
    low: Tensor,
    saved: Saved,
    earlier: Tensor,
    zero: bool,
    unit: Unit,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the inputs, of what U_n multiplies, and of the first state (not `zero`)."""
    states, gates, candidates, touched = saved
    before, keep, sizes = unit
    count, size = states.shape
    two, half = 2 * size, low.dtype
    grads = states.new_empty(count, 3 * size)  # of a
    reach = grads[:, two:]  # of what U_n multiplies
    if not before:
        reach = states.new_empty(count, size)
    gate_weight, weight_n = low[:two], low[two:]
    # What does not depend on the gradient of the next step is computed for all steps at once.
    slope = torch.addcmul(gates, gates, gates, value=-1)  # of the sigmoids
    pull = earlier - candidates if keep else candidates - earlier  # of h' along z
    slope[:, size:] *= pull
    slope[:, :size] *= earlier if before else touched
    bend = torch.addcmul(torch.ones_like(candidates), candidates, candidates, value=-1)
    z_slopes, r_slopes = slope[:, size:].split(sizes), slope[:, :size].split(sizes)
    rs, zs = gates[:, :size].split(sizes), gates[:, size:].split(sizes)
    bends, incoming, reaches = bend.split(sizes), grad.split(sizes), reach.split(sizes)
    d_gates, d_r = grads[:, :two].split(sizes), grads[:, :size].split(sizes)
    d_z, d_n = grads[:, size:two].split(sizes), grads[:, two:].split(sizes)
    dh = incoming[-1]
    for t in range(len(sizes) - 1, -1, -1):
        taken = dh * zs[t]
        left = dh - taken  # dh * (1 - z)
        past, new = (taken, left) if keep else (left, taken)  # what the old h and n are owed
        torch.mul(dh, z_slopes[t], out=d_z[t])
        torch.mul(new, bends[t], out=d_n[t])
        further = t > 0 or not zero
        if before:
            if further:
                dy = (d_n[t].to(half) @ weight_n).to(past.dtype)
                torch.mul(dy, r_slopes[t], out=d_r[t])
                past.addcmul_(dy, rs[t])
            else:
                d_r[t].zero_()
        else:
            torch.mul(d_n[t], r_slopes[t], out=d_r[t])
            torch.mul(d_n[t], rs[t], out=reaches[t])
            if further:
                past.add_(reaches[t].to(half) @ weight_n)
        if further:
            dh = past.add_(d_gates[t].to(half) @ gate_weight)
            if t and len(dh) == sizes[t - 1]:
                dh += incoming[t - 1]
            elif t:  # some ended there
                longer = incoming[t - 1].to(dh.dtype, copy=True)
                longer[: len(dh)] += dh
                dh = longer
    return grads, reach, dh
