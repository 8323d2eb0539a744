r"""ConvS2S: convolutions in the place of recurrence, and attention in the decoder's layers.

Gehring, Auli, Grangier, Yarats and Dauphin, "Convolutional Sequence to Sequence Learning",
ICML 2017, arXiv 1705.03122.

    e      = word vector + position vector                                    3.1
    h^l    = sqrt(0.5) (GLU(conv(h^{l-1})) + h^{l-1}),  GLU([A B]) = A σ(B)   3.2, 3.4
    d_i^l  = W_d^l h_i^l + b_d^l + g_i                                        (1)
    a_ij^l = softmax_j(d_i^l . z_j)                                           3.3
    c_i^l  = sqrt(m) Σ_j a_ij^l (z_j + e_j),   h_i^l <- h_i^l + c_i^l         (2), 3.4
    p      = softmax(W_o h_i^L + b_o)                                         3.2

z are the encoder's last states, g_i the embedding of the previous target word, m the number of
source words. The encoder's convolutions are centered, the decoder's see no future. Every layer but
the embeddings is under weight normalization. Weights start at N(0, sqrt(p / n)), those before a GLU
at N(0, sqrt(4 p / n)) for n inputs kept by dropout with probability p, embeddings at N(0, 0.1).

Shapes: source (B, S) and target (B, T) ids; z (B, S, E); h (B, T, width); logits (B, T, V).

**Departs from the paper**: in the factors that **only the authors' code has** (fairseq, fconv.py):
sqrt(0.5) on d, on z + e and on the sum of h and c; c returns from size E to the width of h through
a linear layer; z, but not e, hands back its gradient divided by twice the number of attentions (the
paper: by their number). An explicit start symbol is the decoder's first input.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Attention, Dot, Lengths, Memory, WeightedSum
from regard.errors import RequestError
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.embed import Embed
from regard.layers.positional_encoding import LearnedPositions
from regard.layers.weightnorm import NormedConv, NormedLinear
from regard.native.kept import kept
from regard.protocols import Decoding, Encoded, Inputs, Output, ids_of

__all__ = ["ConvS2S"]

HALF = math.sqrt(0.5)  # the sum of two independent terms of one variance keeps it
Blocks = Sequence[Sequence[int]]


class ConvS2S(nn.Module):
    """A convolutional encoder, and a convolutional decoder that attends in its layers.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        embed: E, size of embeddings and of what attention compares.
        encoder: rows of (layers, width, kernel), bottom first; odd kernels.
        decoder: the same, for the decoder; as the encoder where not given.
        attention: the decoder layers that attend, counted from 1 (the paper's Table 5); None: all.
        dropout: on embeddings, on the input of convolutions and before the output layer.
        max_length: rows of the two tables of positions.
    """

    normalized = False

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        embed: int = 512,
        encoder: Blocks = ((10, 512, 3), (3, 768, 3), (2, 2048, 1)),
        decoder: Blocks | None = None,
        attention: Sequence[int] | None = None,
        dropout: float = 0.1,
        max_length: int = 1024,
    ) -> None:
        super().__init__()
        below = _layers(encoder, "encoder")
        above = _layers(encoder if decoder is None else decoder, "decoder")
        if any(kernel % 2 == 0 for _, kernel in below):
            raise RequestError(f"encoder kernels are centered, so odd; got {encoder}")
        numbers = range(1, len(above) + 1)
        looking = set(numbers if attention is None else attention)
        if not looking or not looking <= set(numbers):
            raise RequestError(
                f"attention expected one or more of the decoder's layers 1 to {len(above)}, got "
                f"{attention}"
            )
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.dropout = dropout
        self.embed_source, self.embed_target = (
            Embed(source_vocab_size, embed),
            Embed(target_vocab_size, embed),
        )
        self.position_source = LearnedPositions(embed, max_length)
        self.position_target = LearnedPositions(embed, max_length)
        keep = 1.0 - dropout
        # === Encoder ===
        self.encoder_in = NormedLinear(embed, below[0][0], retain=keep)
        self.encoder = nn.ModuleList(
            EncoderBlock(width, after, kernel, before=(kernel - 1) // 2, dropout=dropout)
            for width, (after, kernel) in _chained(below)
        )
        self.encoder_out = NormedLinear(below[-1][0], embed)
        # === Decoder ===
        self.decoder_in = NormedLinear(embed, above[0][0], retain=keep)
        self.decoder = nn.ModuleList(
            DecoderBlock(width, after, kernel, embed, dropout=dropout, looks=number in looking)
            for number, (width, (after, kernel)) in zip(numbers, _chained(above), strict=True)
        )
        self.decoder_out = NormedLinear(above[-1][0], embed)
        self.output = NormedLinear(embed, target_vocab_size, retain=keep)
        for table in (self.embed_source.weight, self.embed_target.weight):
            nn.init.normal_(table, std=0.1)
        for table in (self.position_source.table, self.position_target.table):
            nn.init.normal_(table, std=0.1)
        self.embed_source.silence()
        self.embed_target.silence()

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """The keys z (B, S, E); the values, made of z and e, are in `extra`."""
        source, lengths = ids_of(source, lengths)
        real = Lengths(lengths).dense(1, source.shape[1], at=0, device=source.device)
        real = real.transpose(-2, -1)  # (B, S, 1)
        e = self._drop(self.position_source(self.embed_source(source)))
        x = self.encoder_in(e)
        for block in cast(Iterable[EncoderBlock], self.encoder):
            x = block(x, real)
        z = self.encoder_out(x)
        looks = sum(block.attention is not None for block in self._blocks())
        z = _ScaleGradient.apply(z, 1.0 / (2 * looks))  # type: ignore[no-untyped-call]
        return Encoded(z, lengths, None, {"values": (z + e) * HALF})

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """All positions at once: logits (B, T, V)."""
        memory = self._memory(self.encode(source, lengths))
        g = self._drop(self.position_target(self.embed_target(target_in)))
        x = self.decoder_in(g)
        for block in self._blocks():
            x = block(x, g, memory)
        return Output(project(self.output, self._drop(self.decoder_out(x))), {})

    def start(self, encoded: Encoded) -> Decoding:
        """The source's memory, which all layers share, all weights, normalized once, and zeros."""
        layers = [m for m in self.modules() if isinstance(m, NormedLinear)]
        weights = _Weights(
            {layer: kept(layer, "W", list(layer.parameters()), layer.weight) for layer in layers}
        )
        past = {str(i): block.before(encoded.states) for i, block in enumerate(self._blocks())}
        return Decoding({"source": self._memory(encoded), "weights": weights}, past)

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One token a hypothesis: (B, beam) to (B, beam, V); each layer keeps k - 1 inputs."""
        memory, weights = decoding.memories["source"], decoding.memories["weights"].of
        g = self.position_target(self.embed_target(tokens)[..., None, :], decoding.step)[..., 0, :]
        x = self.decoder_in(g, weights[self.decoder_in])
        past = {}
        for i, block in enumerate(self._blocks()):
            x, past[str(i)] = block.step(x, g, memory, decoding.carried[str(i)], weights)
        x = self.decoder_out(x, weights[self.decoder_out])
        return self.output(x, weights[self.output]), decoding.advance(**past)

    def _blocks(self) -> Iterable["DecoderBlock"]:
        return cast(Iterable[DecoderBlock], self.decoder)

    def _memory(self, encoded: Encoded) -> Memory:
        first = next(block.attention for block in self._blocks() if block.attention is not None)
        return first.remember(encoded.states, encoded.extra["values"], Lengths(encoded.lengths))

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)


class EncoderBlock(nn.Module):
    """Dropout, a convolution, a gated linear unit, and what came in: times sqrt(0.5)."""

    def __init__(self, width: int, after: int, kernel: int, *, before: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.conv = NormedConv(width, 2 * after, kernel, before=before, retain=1.0 - dropout)
        self.change = NormedLinear(width, after) if width != after else None

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """One layer to the next: x (B, S, width), real (B, S, 1) says what is not padding."""
        inside = dropout(x.masked_fill(~real, 0.0), self.dropout, self.training)
        return (F.glu(self.conv(inside), -1) + self.past(x)) * HALF

    def past(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """The residual, at the new width."""
        return x if self.change is None else self.change(x, weight)


class DecoderBlock(EncoderBlock):
    """The same without a future, and if it looks with attention between unit and residual."""

    def __init__(
        self, width: int, after: int, kernel: int, embed: int, *, dropout: float, looks: bool
    ) -> None:
        super().__init__(width, after, kernel, before=kernel - 1, dropout=dropout)
        self.query = self.back = self.attention = None
        if looks:
            self.query = NormedLinear(after, embed)
            self.attention = Attention(Dot(), read=WeightedSum(scale="root length"), role="cross")
            self.back = NormedLinear(embed, after)

    def forward(self, x: Tensor, g: Tensor, memory: Memory) -> Tensor:  # type: ignore[override]
        """All positions at once: x (B, T, width), g (B, T, E)."""
        h = F.glu(self.conv(dropout(x, self.dropout, self.training)), -1)
        return (self.attend(h, g, memory, {}) + self.past(x)) * HALF

    def before(self, states: Tensor) -> Tensor:
        """The inputs before the first position, zeros: (B, 1, k - 1, width)."""
        kernel = self.conv.kernel
        return states.new_zeros(len(states), 1, kernel - 1, self.conv.v.shape[1] // kernel)

    def step(
        self, x: Tensor, g: Tensor, memory: Memory, past: Tensor, weights: dict[Any, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """One position a hypothesis: x (B, beam, width); `past` its inputs (B, beam, k - 1, w)."""
        window = torch.cat([past, x[..., None, :].to(past.dtype)], -2)
        product = F.linear(window.flatten(-2), weights[self.conv], self.conv.bias)
        h = self.attend(F.glu(product, -1), g, memory, weights)
        residual = self.past(x, weights.get(self.change))
        return (h + residual) * HALF, window[..., 1:, :]

    def attend(self, h: Tensor, g: Tensor, memory: Memory, weights: dict[Any, Tensor]) -> Tensor:
        """Look with any number of queries, and add what was found: (B, Q, width)."""
        if self.query is None or self.attention is None or self.back is None:
            return h
        d = (self.query(h, weights.get(self.query)) + g) * HALF
        c = self.attention(d, memory).context
        back: Tensor = self.back(c.to(h.dtype), weights.get(self.back))
        return (back + h) * HALF


@dataclass(frozen=True)
class _Weights:
    """Normalized weights by their layers, the same for every sentence of a batch."""

    of: dict[Any, Tensor]

    def rows(self, index: Tensor) -> "_Weights":
        return self


class _ScaleGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0] * ctx.factor, None


def _layers(rows: Blocks, name: str) -> list[tuple[int, int]]:
    """Width and kernel of every layer."""
    for row in rows:
        if len(row) != 3 or min(row) < 1:
            raise RequestError(
                f"{name} expected rows of (layers, width, kernel), all 1 or more, got {list(row)}"
            )
    layers = [(width, kernel) for count, width, kernel in rows for _ in range(count)]
    if not layers:
        raise RequestError(f"{name} expected one row of (layers, width, kernel) or more, got none")
    return layers


def _chained(layers: list[tuple[int, int]]) -> Iterable[tuple[int, tuple[int, int]]]:
    """Each layer with the width below it."""
    return zip([layers[0][0], *(width for width, _ in layers)], layers, strict=False)
