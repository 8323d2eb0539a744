r"""Stacks of LSTMs over right-padded sequences, and the same stack one step at a time.

.. math::
    i, f, o = \sigma(W_{ifo} x + U_{ifo} h + b_{ifo}), \quad g = \tanh(W_g x + U_g h + b_g)

    c' = f \odot c + i \odot g, \quad h' = o \odot \tanh c'
"""

import warnings
from contextlib import nullcontext
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.layers._gated import tanh
from regard.layers.dropout import dropout
from regard.layers.layout import PackedLayout
from regard.layers.reading import Part, packed_order, padded_order, read_by, reads
from regard.native.bfloat16 import has_bf16
from regard.native.derivatives import once_differentiable
from regard.native.operation import operation
from regard.native.reading import ReadingOrder, RecurrentWeights

__all__ = ["LSTM", "lstm_cell"]

States = tuple[Tensor, Tensor]
"""h and c of all layers: (B, L, H) each."""


class LSTM(nn.Module):
    """Layers of LSTM cells without peepholes.

    Args:
        inputs: size of the input.
        hidden: H.
        layers: L.
        bias: biases (two vectors per gate, as in `torch.nn.LSTM`); Sutskever and Luong have none.
        dropout: on the input of every layer but the first (Zaremba et al. 2014).
        project: P, what each layer's h is projected to (Sak et al. 2014); 0 for none: P = H.

    Shapes:
        x (B, T, inputs) and lengths (B,) to the top layer's states (B, T, P), zero after the end,
        and the last h (B, L, P) and c (B, L, H) of all layers, after the last word of each row
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        layers: int = 1,
        *,
        bias: bool = False,
        dropout: float = 0.0,
        project: int = 0,
    ) -> None:
        super().__init__()
        self.hidden, self.layers = hidden, layers
        if project:  # known: PyTorch's own loop does these
            warnings.filterwarnings("ignore", "LSTM with projections is not supported with oneDNN")
        self.stack = nn.LSTM(
            inputs,
            hidden,
            layers,
            bias=bias,
            batch_first=True,
            dropout=dropout if layers > 1 else 0.0,
            proj_size=project,
        )

    def forward(
        self,
        x: Float[Tensor, "batch time inputs"],
        lengths: Int[Tensor, " batch"] | None = None,
        state: States | None = None,
    ) -> tuple[Float[Tensor, "batch time hidden"], States]:
        """Read the sequences: a few in C, where no gradients are wanted, else by PyTorch."""
        if state is None and self._in_c(x, x.shape[0]):
            order = padded_order(x, lengths, [False])
            if order is not None:
                states, found = self._read_in_c(x.flatten(0, 1), order)
                return states.view(*x.shape[:2], -1), found
        start = None if state is None else (_inner(state[0], x.dtype), _inner(state[1], x.dtype))
        if lengths is None or bool((lengths == x.shape[1]).all()):
            out, (h, c) = self._all(x, start)
        else:
            packed = pack_padded_sequence(x, lengths.cpu().clamp_min(1), True, enforce_sorted=False)
            out, (h, c) = self._all(packed, start)
            out = pad_packed_sequence(out, True, total_length=x.shape[1])[0]
        return out, (h.transpose(0, 1), c.transpose(0, 1))

    def remember(self, bias: float) -> None:
        """Add `bias` to the biases of all forget gates (Jozefowicz et al. 2015: 1 at the start)."""
        with torch.no_grad():
            for layer in range(self.layers):
                gates = self.stack.get_parameter(f"bias_ih_l{layer}")
                gates[self.hidden : 2 * self.hidden] += bias

    def packed(
        self, x: Float[Tensor, "words inputs"], layout: PackedLayout, backward: bool = False
    ) -> Float[Tensor, "words hidden"]:
        """The top layer's states of sequences without padding: x (N, inputs) to (N, P).

        Args:
            x: in that layout.
            layout: its sequences.
            backward: read each from its last item to its first.
        """
        if self._in_c(x, layout.sizes[0] if layout.sizes else 0):
            return self._read_in_c(x, packed_order(layout, [backward]))[0]
        given = layout.mirror(x) if backward else x
        states: Tensor = self._all(PackedSequence(given, torch.tensor(layout.sizes)))[0].data
        return layout.mirror(states) if backward else states

    @property
    def parts(self) -> list[Part]:
        """The modules that C stands for."""
        return [(self.stack, nn.LSTM)]

    def weights(self, layer: int = 0) -> RecurrentWeights:
        """The weights of a layer as C wants them."""
        weight, recurrent, *biases = (
            self.stack.get_parameter(f"{name}_l{layer}")
            for name in ("weight_ih", "weight_hh", *("bias_ih", "bias_hh")[: 2 * self.stack.bias])
        )
        return RecurrentWeights(weight, recurrent, tuple(biases))

    def _in_c(self, x: Tensor, sequences: int) -> bool:
        drops = self.training and self.stack.dropout > 0
        return not drops and not self.stack.proj_size and reads(x, self.parts, sequences=sequences)

    def _read_in_c(self, x: Tensor, order: ReadingOrder) -> tuple[Tensor, States]:
        """All layers: the top one's states (rows, H), and h and c of each (B, L, H)."""
        h, c = [], []
        for i in range(self.layers):
            found = read_by(self, f"layer {i}", [self.weights(i)], x, order, lstm=True)
            assert found.cells is not None
            x = found.states.flatten(1)
            h.append(found.final[0])
            c.append(found.cells[0])
        return x, (torch.stack(h).transpose(0, 1), torch.stack(c).transpose(0, 1))  # as PyTorch

    def _all(self, x: Any, start: States | None = None) -> tuple[Any, States]:
        """PyTorch's layers; in float32 where autocast asks for bfloat16 and cannot have it."""
        data = x[0] if isinstance(x, tuple) else x
        if not _wants_bf16(data.device.type) or (data.is_cpu and has_bf16()):
            return self._run(x, start)
        # On a GPU, PyTorch would cast to float16 here, whatever autocast was asked for.
        dtype = next(self.stack.parameters()).dtype
        if start is not None:
            start = start[0].to(dtype), start[1].to(dtype)
        with torch.autocast(data.device.type, enabled=False):
            return self._run(x.to(dtype), start)

    def _run(self, x: Any, start: States | None) -> tuple[Any, States]:
        """PyTorch's layers; without cuDNN where it would have no gradients."""
        data = x[0] if isinstance(x, tuple) else x
        # In eval mode, where explanations of a prediction ask for them.
        without = data.is_cuda and torch.is_grad_enabled() and not self.stack.training
        with torch.backends.cudnn.flags(enabled=False) if without else nullcontext():
            found: tuple[Any, States] = self.stack(x, start)
        return found

    def project(
        self, x: Float[Tensor, "*batch part"], columns: slice | None = None
    ) -> Float[Tensor, "*batch gates"]:
        """The first layer's product with (the named columns of) its input: W x, 4H in all, no bias.

        Used for input feeding: words are known for all steps, the fed vectors only step by step.
        """
        weight = self.stack.get_parameter("weight_ih_l0")
        return F.linear(x, weight if columns is None else weight[:, columns])

    def step(
        self, projected: Float[Tensor, "batch gates"], h: list[Tensor], c: list[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """One step of all layers.

        Shapes:
            projected (N, 4H), the whole `project` of the first layer's input; h: L times (N, P);
            c: L times (N, H)
        """
        above: list[States] = []
        for layer in range(self.layers):
            names = [
                f"{kind}_l{layer}" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            ]
            if layer:
                x = dropout(above[-1][0], self.stack.dropout, self.training)
                projected = F.linear(x, getattr(self.stack, names[0]))
            gates = projected + F.linear(h[layer], getattr(self.stack, names[1]))
            if self.stack.bias:
                gates = gates + (getattr(self.stack, names[2]) + getattr(self.stack, names[3]))
            state = lstm_cell(gates, c[layer])
            if self.stack.proj_size:
                state = F.linear(state[0], getattr(self.stack, f"weight_hr_l{layer}")), state[1]
            above.append(state)
        return [state[0] for state in above], [state[1] for state in above]


@operation("lstm_cell")
def lstm_cell(
    gates: Float[Tensor, "batch gates"], c: Float[Tensor, "batch hidden"]
) -> tuple[Float[Tensor, "batch hidden"], Float[Tensor, "batch hidden"]]:
    """The element-wise half of a step, as one node: pre-activations i, f, g, o and c to h', c'."""
    h, new = _Cell.apply(gates, c)  # type: ignore[no-untyped-call]
    return h, new


def _wants_bf16(device: str) -> bool:
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):
        return False
    return torch.get_autocast_dtype(device) == torch.bfloat16


def _inner(x: Tensor, dtype: torch.dtype) -> Tensor:
    """(B, L, H) to the (L, B, H) of `torch.nn.LSTM`."""
    return x.transpose(0, 1).contiguous().to(dtype)


class _Cell(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, c: Tensor) -> States:
        size = c.shape[-1]
        gates = gates.to(c.dtype)
        g = tanh(gates[:, 2 * size : 3 * size])
        s = torch.sigmoid(gates)
        i, f, o = s[:, :size], s[:, size : 2 * size], s[:, 3 * size :]
        new = torch.addcmul(f * c, i, g)
        t = tanh(new)
        ctx.save_for_backward(s, g, t, c)
        return o * t, new

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> States:
        s, g, t, c = ctx.saved_tensors
        dh, dc = grads
        size = c.shape[-1]
        i, f, o = s[:, :size], s[:, size : 2 * size], s[:, 3 * size :]
        dc = torch.addcmul(dc, dh * o, 1 - t * t)
        out = s - s * s
        out[:, 2 * size : 3 * size] = 1 - g * g
        out[:, :size] *= dc * g
        out[:, size : 2 * size] *= dc * c
        out[:, 2 * size : 3 * size] *= dc * i
        out[:, 3 * size :] *= dh * t
        return out, dc * f
