r"""A recurrence of highway LSTM cells over sentences without padding.

.. math::
    i, f, o, r = \sigma(W_{ifor} x + U_{ifor} h + b_{ifor}), \quad
    j = \tanh(W_j x + U_j h + b_j), \quad c' = f \odot c + i \odot j

    h' = m \odot \big(r \odot o \odot \tanh c' + (1 - r) \odot (W_k x + b_k)\big)

The carry :math:`W_k x + b_k` meets no state. m is a dropout mask, one for each sentence, the same
at all of its steps. The backward pass is explicit: a step costs one product, and the gradient of U
is one product over all steps.

Source: He, Lee, Lewis and Zettlemoyer 2017, "Deep Semantic Role Labeling: What Works and What's
Next", section 2.2; Zhang et al. 2016, "Highway Long Short-Term Memory RNNs".
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers._gated import affine, tanh
from regard.layers.dropout import dropout as drop
from regard.layers.layout import PackedLayout
from regard.layers.linear import linear
from regard.layers.rnn import orthogonal
from regard.native.derivatives import once_differentiable

__all__ = ["HighwayLSTM"]

GATES, BLOCKS = 5, 6


class HighwayLSTM(nn.Module):
    """A layer in one direction.

    Args:
        inputs: size of the input.
        hidden: H.
        dropout: of h, by one mask for all steps of a sentence.

    Shapes:
        x (N, inputs) in a layout to states (N, H)

    Example:
        >>> layout = PackedLayout(torch.ones(2, 5, dtype=torch.bool))
        >>> HighwayLSTM(4, 3)(torch.randn(10, 4), layout).shape
        torch.Size([10, 3])
    """

    def __init__(self, inputs: int, hidden: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.hidden, self.dropout = hidden, dropout
        self.input = nn.Linear(inputs, BLOCKS * hidden)  # rows of i, f, o, r, j and the carry
        self.recurrent = nn.Parameter(torch.empty(GATES * hidden, hidden))
        orthogonal(self.input.weight, BLOCKS)
        orthogonal(self.recurrent, GATES)
        nn.init.zeros_(self.input.bias)
        nn.init.ones_(self.input.bias[hidden : 2 * hidden].data)  # of f

    def forward(
        self, x: Float[Tensor, "words inputs"], layout: PackedLayout, backward: bool = False
    ) -> Float[Tensor, "words hidden"]:
        """Read the sentences, from the last word to the first if `backward`."""
        gates = linear(self.input, x)
        if backward:
            gates = layout.mirror(gates)
        rows = layout.sizes[0]
        kept = self.recurrent.new_ones(rows, self.hidden)
        kept = drop(kept, self.dropout, self.training)
        states: Tensor = _Highway.apply(  # type: ignore[no-untyped-call]
            gates, self.recurrent, kept, layout.sizes
        )
        states = states.to(gates.dtype)
        return layout.mirror(states) if backward else states

    def extra_repr(self) -> str:
        """Say the size and the dropout."""
        return f"{self.hidden}" + (f", dropout={self.dropout:g}" if self.dropout else "")


class _Highway(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, kept: Tensor, sizes: Sequence[int]
    ) -> Tensor:
        count, size = len(inputs), weight.shape[1]
        low = weight.to(inputs.dtype)
        met = weight.new_empty(count, GATES * size)  # i, f, o, r, j
        cells, bent, states = (weight.new_empty(count, size) for _ in range(3))
        h, c = (weight.new_zeros(sizes[0], size) for _ in range(2))
        carries = inputs[:, GATES * size :].split(sizes)
        parts = (x.split(sizes) for x in (inputs[:, : GATES * size], met, cells, bent, states))
        for t, (given, gate, cell, tanh_c, state) in enumerate(zip(*parts, strict=True)):
            n = sizes[t]
            if t:
                affine(gate, given, h[:n], low.t())
            else:
                gate.copy_(given)
            gate[:, : 4 * size].sigmoid_()
            i, f, o, r, j = gate.chunk(GATES, -1)
            tanh(j, out=j)
            torch.mul(i, j, out=cell)
            cell.addcmul_(f, c[:n])
            tanh(cell, out=tanh_c)
            torch.mul(o, tanh_c, out=state)
            torch.lerp(carries[t].to(state.dtype), state, r, out=state)
            state.mul_(kept[:n])
            h, c = state, cell
        ctx.save_for_backward(inputs, low, kept, met, cells, bent, states)
        ctx.sizes, ctx.dtype = sizes, weight.dtype
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, low, kept, met, cells, bent, states = ctx.saved_tensors
        sizes, (count, size) = ctx.sizes, states.shape
        rows = sizes[0]
        known = zip(sizes[1:], cells.split(sizes), states.split(sizes), strict=False)
        before = [(c[:n], h[:n]) for n, c, h in known]
        old_cells = torch.cat([cells.new_zeros(rows, size), *(c for c, _ in before)])
        earlier = torch.cat([cells.new_zeros(rows, size), *(h for _, h in before)]).to(low.dtype)
        # What does not depend on later steps is computed for all steps at once.
        i, f, o, r, j = met.chunk(GATES, -1)
        by_dc = torch.cat([i - i * i, f - f * f], 1)  # of di and df, from dc
        by_dc[:, :size] *= j
        by_dc[:, size:] *= old_cells
        by_dj = i * (1 - j * j)
        slope_r = (r - r * r) * (o * bent - inputs[:, GATES * size :].to(r.dtype))
        slope_o = r * bent * (o - o * o)
        to_cell = r * o * (1 - bent * bent)
        stay = 1 - r
        grads = met.new_empty(count, BLOCKS * size)
        every = grads, grad, by_dc, by_dj, slope_r, slope_o, to_cell, stay, f
        steps = list(zip(*(x.split(sizes) for x in every), strict=True))
        dh = dc = grad.new_zeros(0, size, dtype=met.dtype)
        for t in reversed(range(len(steps))):
            out, come, both, of_j, of_r, of_o, of_c, left, forget = steps[t]
            total = come.to(met.dtype, copy=True)
            total[: len(dh)] += dh
            total *= kept[: sizes[t]]
            cell = total * of_c
            cell[: len(dc)] += dc
            torch.mul(cell, both[:, :size], out=out[:, :size])
            torch.mul(cell, both[:, size:], out=out[:, size : 2 * size])
            torch.mul(total, of_o, out=out[:, 2 * size : 3 * size])
            torch.mul(total, of_r, out=out[:, 3 * size : 4 * size])
            torch.mul(cell, of_j, out=out[:, 4 * size : 5 * size])
            torch.mul(total, left, out=out[:, 5 * size :])
            dc = cell * forget
            if t:
                dh = (out[:, : GATES * size].to(low.dtype) @ low).to(met.dtype)
        of_inputs = grads.to(inputs.dtype)
        skip = rows  # no weight met the first state, of zeros
        of_weight = of_inputs[skip:, : GATES * size].t().to(low.dtype) @ earlier[skip:]
        return of_inputs, of_weight.to(ctx.dtype), None, None
