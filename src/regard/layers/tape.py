r"""An LSTM that looks at all of its earlier states in place of the last one.

.. math::
    a_i &= v^\top \tanh(W_h h_i + W_x x_t + W_{\tilde h} \tilde h_{t-1}), \quad
        s = \mathrm{softmax}_i(a) \\
    \tilde h_t &= \sum_i s_i h_i, \quad \tilde c_t = \sum_i s_i c_i \\
    i, f, o &= \sigma(W_{ifo} [\tilde h_t; x_t] + b_{ifo}), \quad
        g = \tanh(W_g [\tilde h_t; x_t] + b_g) \\
    c_t &= f \odot \tilde c_t + i \odot g, \quad h_t = o \odot \tanh c_t
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import Additive, Attention, Dense, Lengths, Mask, Memory
from regard.layers.linear import linear
from regard.layers.lstm import lstm_cell

__all__ = ["Tape", "TapeLSTM", "TapeRead"]


class Tape(NamedTuple):
    """What a cell has written so far: a slot for each word, and one before the first.

    Args:
        memory: of keys h_i and values [h_i; c_i].
        summary: what the last step read of h; zeros before the first.
    """

    memory: Memory
    summary: Tensor


class TapeRead(NamedTuple):
    """Which steps are of words, and which slots each step may look at.

    Args:
        live: (T, B); None where all are.
        masks: of each step.
    """

    live: Tensor | None
    masks: Sequence[Mask | None]

    @classmethod
    def right(cls, lengths: Int[Tensor, " batch"], time: int) -> "TapeRead":
        """Of sentences with the padding behind them."""
        if bool((lengths == time).all()):
            return cls(None, [None] * time)
        steps = torch.arange(time, device=lengths.device)[:, None]
        live = steps < lengths
        return cls(live, [Lengths(row) for row in (live * (steps + 1)).unbind()])

    @classmethod
    def anywhere(cls, real: Bool[Tensor, "batch time"]) -> "TapeRead":
        """Of texts with the padding where `real` is not."""
        time = real.shape[1]
        if bool(real.all()):
            return cls(None, [None] * time)
        slots = torch.cat([torch.ones_like(real[:, :1]), real], 1)
        masks = [Dense((slots[:, : t + 1] & real[:, t, None])[:, None]) for t in range(time)]
        return cls(real.T, masks)


class TapeLSTM(nn.Module):
    """A layer of these cells (Cheng, Dong and Lapata 2016, section 3.1).

    `tape` is s for who watches, a step for each word; its first key is the slot before the text.
    W_h h_i is computed once for each slot.

    Args:
        inputs: size of the input.
        hidden: H.

    Shapes:
        x (B, T, inputs) to h and c, (B, T, H) each; positions past the end are undefined
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.tape = Attention(Additive(inputs + hidden, hidden, hidden), role="self")
        self.input = nn.Linear(inputs, 4 * hidden)
        self.recurrent = nn.Linear(hidden, 4 * hidden, bias=False)

    def start(self, h: Float[Tensor, "*batch hidden"], c: Float[Tensor, "*batch hidden"]) -> Tape:
        """A tape with one slot."""
        key, value = h.unsqueeze(-2), torch.cat([h, c], -1).unsqueeze(-2)
        return Tape(self.tape.remember(key, value), torch.zeros_like(h))

    def look(
        self, x: Float[Tensor, "*batch inputs"], tape: Tape, mask: Mask | None = None
    ) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch hidden"]]:
        """The summaries of both tapes with an input in mind."""
        query = torch.cat([x, tape.summary.to(x.dtype)], -1).unsqueeze(-2)
        read = self.tape(query, tape.memory, mask=mask).context.squeeze(-2)
        h, c = read.to(tape.summary.dtype).chunk(2, -1)
        return h, c

    def write(
        self,
        tape: Tape,
        h: Float[Tensor, "*batch hidden"],
        c: Float[Tensor, "*batch hidden"],
        summary: Float[Tensor, "*batch hidden"],
        live: Bool[Tensor, " batch"] | None = None,
    ) -> Tape:
        """The tape with one more slot; rows without a word keep their summary."""
        if live is not None:
            summary = torch.where(live[:, None], summary, tape.summary)
        key, value = h.unsqueeze(-2), torch.cat([h, c], -1).unsqueeze(-2)
        return Tape(self.tape.extend(tape.memory, key, value), summary)

    def step(
        self,
        gates: Float[Tensor, "*batch gates"],
        x: Float[Tensor, "*batch inputs"],
        tape: Tape,
        mask: Mask | None = None,
        live: Bool[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch hidden"], Tape]:
        """One step: h, c and the tape after it.

        Args:
            gates: `input` of x.
            x: the input.
            tape: of the steps before.
            mask: which slots may be looked at.
            live: which rows have a word here.
        """
        summary, cells = self.look(x, tape, mask)
        gates = gates + self.recurrent(summary)
        h, c = lstm_cell(gates.flatten(0, -2), cells.flatten(0, -2))
        h, c = h.view_as(summary), c.view_as(cells)
        return h, c, self.write(tape, h, c, summary, live)

    def forward(
        self,
        x: Float[Tensor, "batch time inputs"],
        reading: TapeRead,
        start: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Float[Tensor, "batch time hidden"], Float[Tensor, "batch time hidden"]]:
        """Read sequences; `start` is the slot before the first word, zeros by default."""
        gates, words = linear(self.input, x).unbind(1), x.unbind(1)
        nothing = x.new_zeros(len(x), self.hidden)
        tape = self.start(*((nothing, nothing) if start is None else start))
        live = [None] * x.shape[1] if reading.live is None else reading.live.unbind()
        states, cells = list[Tensor](), list[Tensor]()
        for t, mask in enumerate(reading.masks):
            h, c, tape = self.step(gates[t], words[t], tape, mask, live[t])
            states.append(h)
            cells.append(c)
        return torch.stack(states, 1), torch.stack(cells, 1)
