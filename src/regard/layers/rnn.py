r"""Gated recurrent units over right-padded sequences.

.. math::
    r, z = \sigma(W_{rz} x + b_{rz} + U_{rz} h), \quad
    n = \tanh(W x + b + U (r \odot h)) \text{ ("before")}, \quad
    n = \tanh(W x + b + r \odot U h) \text{ ("after")}

The position of the reset gate gives two different functions, equal only at r = 1. Cho et al. (2014)
and Bahdanau et al. (2015) print "before"; PyTorch, cuDNN and dl4mt compute "after".

The role of z is a convention: :math:`h' = z h + (1-z) n` in Cho et al. and PyTorch (`update=
"keep"`), :math:`h' = (1-z) h + z n` in Bahdanau et al. (`"take"`). As :math:`1 - \sigma(a)` is
:math:`\sigma(-a)`, both are the same family of functions, with opposite signs of the rows of z.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import RequestError, nearest
from regard.layers._gated import recurrence
from regard.layers._loop import Loop
from regard.layers.embed import Embed
from regard.layers.layout import PackedLayout
from regard.layers.linear import linear
from regard.layers.pool import real
from regard.layers.reading import Part, packed_order, padded_order, read_by, reads
from regard.layers.reverse import reverse
from regard.native.operation import is_recorded
from regard.native.reading import ReadingOrder, RecurrentWeights

__all__ = ["GRU", "BiGRU", "Gated", "last", "orthogonal"]

Ends = tuple[Tensor, Tensor]
RESETS = {"before": True, "after": False}
UPDATES = {"keep": True, "take": False}


class Gated(nn.Module):
    """The recurrent part of a GRU; products with the inputs are computed outside, for all steps.

    Args:
        hidden: H.
        reset: the reset gate is "before" or "after" the recurrent product of the candidate.
        update: "keep": z keeps the old state (Cho, PyTorch); "take": z takes the new (Bahdanau).
    """

    def __init__(self, hidden: int, *, reset: str = "before", update: str = "keep") -> None:
        super().__init__()
        for name, given, known in (("reset", reset, RESETS), ("update", update, UPDATES)):
            if given not in known:
                raise RequestError(
                    f"no {name} of a GRU is called {given!r}; {nearest(given, known)}"
                )
        self.hidden, self.reset, self.update = hidden, reset, update
        self.weight = nn.Parameter(torch.empty(3 * hidden, hidden))  # rows of r, z, n
        orthogonal(self.weight, 3)

    def forward(
        self,
        inputs: Float[Tensor, "*batch gates"],
        state: Float[Tensor, "*batch hidden"],
        inside: Float[Tensor, "*batch hidden"] | None = None,
    ) -> Float[Tensor, "*batch hidden"]:
        """One step.

        Args:
            inputs: W x + b of the gates r, z and of the candidate, 3H in all.
            state: h.
            inside: a term added to U h, inside the reset gate (reset="after" only).
        """
        batch = state.shape[:-1]
        flat = None if inside is None else inside.reshape(-1, self.hidden)
        new = self._run(
            inputs.reshape(1, -1, 3 * self.hidden), state.reshape(-1, self.hidden), flat
        )
        return new[0].view(*batch, self.hidden)

    def sequence(
        self,
        inputs: Float[Tensor, "batch time gates"],
        state: Float[Tensor, "batch hidden"] | None = None,
        inside: Float[Tensor, "batch hidden"] | None = None,
    ) -> Float[Tensor, "batch time hidden"]:
        """All steps, from `state` (zero by default): the state after each."""
        return self._run(inputs.transpose(0, 1), state, inside).transpose(0, 1)

    def packed(
        self, inputs: Float[Tensor, "words gates"], layout: PackedLayout
    ) -> Float[Tensor, "words hidden"]:
        """All steps of sequences without padding, from zero: the state after each."""
        before, keep = RESETS[self.reset], UPDATES[self.update]
        return recurrence(inputs, None, self.weight, before=before, keep=keep, sizes=layout.sizes)

    def loop(self, context: Float[Tensor, "gates context"], dtype: torch.dtype) -> Loop:
        """Steps for a training loop with attention between them.

        A step is `state = loop(inputs, context, state)`, the same as
        `self(inputs + C context, state)` with 2-D tensors, but in training the gradients of U and C
        are one product over all steps.

        Args:
            context: the matrix C.
            dtype: of the products, as under autocast.
        """
        before, keep = RESETS[self.reset], UPDATES[self.update]
        return Loop(self.weight, context, before=before, keep=keep, dtype=dtype)

    def _run(self, inputs: Tensor, state: Tensor | None, inside: Tensor | None) -> Tensor:
        before, keep = RESETS[self.reset], UPDATES[self.update]
        if before and inside is not None:
            raise RequestError(
                'inside= expected reset="after": a reset gate before U reaches only h'
            )
        return recurrence(inputs, state, self.weight, inside, before=before, keep=keep)

    def extra_repr(self) -> str:
        """Say the size and the two conventions."""
        return f"{self.hidden}, reset={self.reset!r}, update={self.update!r}"


class GRU(nn.Module):
    """A gated unit over right-padded sequences.

    Args:
        inputs: size of the input.
        hidden: H.
        reset, update: see `Gated`.
        backward: read each row from its last word to its first, never the padding before it.
        bias: b; one vector per gate (3H in total; `torch.nn.GRU` has two).

    Shapes:
        x (B, T, inputs) and lengths (B,) to states (B, T, H), zero after the end, and the last
        state (B, H): the one after the last word read
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        reset: str = "before",
        update: str = "keep",
        backward: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.backward = backward
        self.input = nn.Linear(inputs, 3 * hidden, bias=bias)
        self.recurrent = Gated(hidden, reset=reset, update=update)

    def forward(
        self,
        x: Float[Tensor, "batch time inputs"],
        lengths: Int[Tensor, " batch"] | None = None,
        state: Float[Tensor, "batch hidden"] | None = None,
    ) -> tuple[Float[Tensor, "batch time hidden"], Float[Tensor, "batch hidden"]]:
        """Read the sequences."""
        if state is None and (order := _in_c(x, lengths, [self])) is not None:
            states, (final,) = _read_in_c(self, [self], x, order)
            return states, final
        return self._read(x, self.input, lengths, state)

    def words(
        self,
        embed: Embed,
        ids: Int[Tensor, "batch time"],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch time hidden"], Float[Tensor, "batch hidden"]]:
        """The same as `self(embed(ids), lengths)`, by `Embed.through`."""
        if is_recorded() or ids.numel() <= len(embed.weight):  # nothing to gain
            return self.forward(embed(ids), lengths)
        return self._read(ids, lambda ids: embed.through(ids, self.input), lengths, None)

    @property
    def parts(self) -> list[Part]:
        """The modules that C stands for."""
        return [(self.input, nn.Linear), (self.recurrent, Gated)]

    @property
    def weights(self) -> RecurrentWeights:
        """The weights as C wants them."""
        biases = () if self.input.bias is None else (self.input.bias,)
        before, keep = RESETS[self.recurrent.reset], UPDATES[self.recurrent.update]
        return RecurrentWeights(self.input.weight, self.recurrent.weight, biases, before, keep)

    def packed(
        self, gates: Float[Tensor, "words gates"], layout: PackedLayout
    ) -> Float[Tensor, "words hidden"]:
        """The states of sequences without padding, given W x + b of every word."""
        if not self.backward:
            return self.recurrent.packed(gates, layout).to(gates.dtype)
        states = self.recurrent.packed(layout.mirror(gates), layout)
        return layout.mirror(states.to(gates.dtype))

    def _read(
        self,
        x: Tensor,
        project: Callable[[Tensor], Tensor],
        lengths: Tensor | None,
        state: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        if lengths is None:
            lengths = torch.full(x.shape[:1], x.shape[1], device=x.device)
        if self.backward:
            x = reverse(x, lengths)
        gates = project(x)  # (B, T, 3H)
        states = self.recurrent.sequence(gates, state)  # (B, T, H)
        final = last(states, lengths)
        states = states.to(gates.dtype)  # under autocast, once for all who read them
        if self.backward:
            states = reverse(states, lengths)
        return states * real(lengths, states)[..., None], final


class BiGRU(nn.Module):
    r"""A bidirectional GRU: :math:`h_j = [\overrightarrow h_j ; \overleftarrow h_j]`.

    Shapes:
        x (B, T, inputs) and lengths (B,) to states (B, T, 2H), zero after the end; the forward
        state at the last word (B, H); the backward state at the first word (B, H)
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        reset: str = "before",
        update: str = "keep",
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.ahead = GRU(inputs, hidden, reset=reset, update=update, bias=bias)
        self.back = GRU(inputs, hidden, reset=reset, update=update, bias=bias, backward=True)

    def forward(
        self, x: Float[Tensor, "batch time inputs"], lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[
        Float[Tensor, "batch time both"],
        Float[Tensor, "batch hidden"],
        Float[Tensor, "batch hidden"],
    ]:
        """Run both directions."""
        both = [self.ahead, self.back]
        if (order := _in_c(x, lengths, both)) is not None:
            states, (ahead, back) = _read_in_c(self, both, x, order)
            return states, ahead, back
        return self._both(self.ahead(x, lengths), self.back(x, lengths))

    def words(
        self,
        embed: Embed,
        ids: Int[Tensor, "batch time"],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> tuple[
        Float[Tensor, "batch time both"],
        Float[Tensor, "batch hidden"],
        Float[Tensor, "batch hidden"],
    ]:
        """The same as `self(embed(ids), lengths)`, by `Embed.through`."""
        few = is_recorded() or ids.numel() <= len(embed.weight)
        if few or (embed.training and embed.dropout):
            return self.forward(embed(ids), lengths)  # and both directions drop the same
        return self._both(
            self.ahead.words(embed, ids, lengths), self.back.words(embed, ids, lengths)
        )

    def packed(
        self, x: Float[Tensor, "words inputs"], layout: PackedLayout
    ) -> Float[Tensor, "words both"]:
        """The states of sequences without padding: x (N, inputs) to (N, 2H), in that layout."""
        both = [self.ahead, self.back]
        if _are_read(x, both):
            weights = [layer.weights for layer in both]
            order = packed_order(layout, [False, True])
            return read_by(self, "layer", weights, x, order, lstm=False).states.flatten(1)
        return self._packed(lambda layer: linear(layer, x), layout)

    def packed_words(
        self, embed: Embed, ids: Int[Tensor, " words"], layout: PackedLayout
    ) -> Float[Tensor, "words both"]:
        """The same as `self.packed(embed(ids), layout)`, by `Embed.through`."""
        if len(ids) <= embed.weight.shape[0] or (embed.training and embed.dropout):
            return self.packed(embed(ids), layout)
        return self._packed(lambda layer: embed.through(ids, partial(linear, layer)), layout)

    def _packed(self, project: Callable[[nn.Linear], Tensor], layout: PackedLayout) -> Tensor:
        both = [unit.packed(project(unit.input), layout) for unit in (self.ahead, self.back)]
        return torch.cat(both, -1)

    def _both(self, ahead: Ends, back: Ends) -> tuple[Tensor, Tensor, Tensor]:
        return torch.cat([ahead[0], back[0]], -1), ahead[1], back[1]


def _in_c(x: Tensor, lengths: Tensor | None, layers: list[GRU]) -> ReadingOrder | None:
    """The order of sequences that C reads, if it reads them."""
    if not _are_read(x, layers):
        return None
    return padded_order(x, lengths, [layer.backward for layer in layers])


def _are_read(x: Tensor, layers: list[GRU]) -> bool:
    """Whether C reads the layers of both directions, or of one."""
    parts = [part for layer in layers for part in layer.parts]
    if len(layers) > 1:  # neither of them is called
        parts += [(layer, GRU) for layer in layers]
    return reads(x, parts)


def _read_in_c(
    owner: nn.Module, layers: list[GRU], x: Tensor, order: ReadingOrder
) -> tuple[Tensor, Tensor]:
    """All states (B, T, directions H), and the last ones of each direction (directions, B, H)."""
    found = read_by(
        owner, "layer", [layer.weights for layer in layers], x.flatten(0, 1), order, lstm=False
    )
    return found.states.view(*x.shape[:2], -1), found.final


def last(
    states: Float[Tensor, "batch time hidden"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch hidden"]:
    """The state after the last real word of each row (row 0 of an empty sequence)."""
    rows = torch.arange(states.shape[0], device=states.device)
    return states[rows, (lengths.to(states.device) - 1).clamp_min(0)]


@torch.no_grad()
def orthogonal(weight: Float[Tensor, "rows columns"], blocks: int = 1) -> None:
    """Initialize each of the stacked square blocks with its own random orthogonal matrix."""
    for block in weight.chunk(blocks):
        nn.init.orthogonal_(block)
