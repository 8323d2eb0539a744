r"""The Transformer as the translation toolkits train it: Marian, fairseq, OpenNMT-py, JoeyNMT.

Junczys-Dowmunt et al., "Marian: Fast Neural Machine Translation in C++", ACL 2018,
arXiv 1804.00344.

    MultiHead, LayerNorm: as in `transformer`, with a bias in each of the four projections
    FFN(x)  = φ(x W_1 + b_1) W_2 + b_2            φ: swish (x sigmoid(x)), ReLU, GELU
    input   : Dropout(s E x + PE)                 s: the root of d, or 1
    logits  : E_out y + b                         the bias holds what a toolkit adds to its logits

Models of those toolkits are read into this one, see `regard.convert`.

Shapes: source (B, S) and target (B, T) ids; states (B, S, D); logits (B, T, V).

**Departs from the paper**: none of its deep RNN models, factors or tied-layer options.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import MultiHead
from regard.errors import RequestError, nearest
from regard.layers.dropout import dropout
from regard.layers.feedforward import FeedForward
from regard.layers.positional_encoding import LearnedPositions, Sinusoid
from regard.models.transformer import AttentionSettings, Transformer
from regard.protocols import lengths_of

__all__ = ["ACTIVATIONS", "POSITIONS", "Marian"]


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS = {
    "relu": torch.relu,
    "swish": F.silu,
    "gelu": F.gelu,
    "gelu-tanh": _gelu_tanh,
    "tanh": torch.tanh,
}
"""φ of the feed-forward layer."""

POSITIONS = {"sinusoid": "interleaved", "grouped": "grouped", "halves": "halves"}
"""What `positions` may be beside "learned", and the layout of the sinusoid it stands for."""


class Marian(Transformer):
    """Attention only, with biases: an encoder and a decoder of `layers` layers each.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        dim: d.
        heads: of each attention.
        layers: of the encoder, and of the decoder unless `decoder_layers` says otherwise.
        ffn_dim: width inside the feed-forward layer.
        dropout: on every sub-layer's output and on the embedded input.
        attention_dropout, activation_dropout: on weights and inside the feed-forward layer.
        norm: "post" (Marian, fairseq) or "pre" (OpenNMT-py).
        positions: the sinusoid "grouped" (Marian), "halves" (fairseq) or "sinusoid", as printed;
            or "learned".
        first: the row of the table that the first token gets; fairseq's is 2.
        max_length: rows of a learned table.
        tied: one matrix for both embeddings and the output, "output" for the target's two alone, or
            "none".
        activation: "swish", "relu", "gelu", "gelu-tanh" or "tanh".
        epsilon: of the layer norms.
        scaled: whether word vectors are multiplied by the root of d.
        reads_end: whether the encoder sees the EOS behind a source; OpenNMT-py's does not.
    """

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        dim: int = 512,
        heads: int = 8,
        layers: int = 6,
        decoder_layers: int | None = None,
        ffn_dim: int = 2048,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        norm: str = "post",
        positions: str = "grouped",
        first: int = 0,
        max_length: int = 1024,
        tied: str = "all",
        activation: str = "swish",
        epsilon: float = 1e-5,
        scaled: bool = True,
        reads_end: bool = True,
    ) -> None:
        for given, name, known in (
            (positions, "positions", (*POSITIONS, "learned")),
            (activation, "activation", ACTIVATIONS),
        ):
            if given not in known:
                raise RequestError(f"no {name} is called {given!r}; {nearest(given, known)}")
        super().__init__(
            source_vocab_size,
            target_vocab_size,
            dim=dim,
            heads=heads,
            layers=layers,
            decoder_layers=decoder_layers,
            ffn_dim=ffn_dim,
            dropout=dropout,
            activation_dropout=activation_dropout,
            norm=norm,
            tied=tied,
            attention=AttentionSettings(dropout=attention_dropout),
        )
        self.scale = math.sqrt(dim) if scaled else 1.0
        self.first, self.reads_end = first, reads_end
        self.position = (
            LearnedPositions(dim, max_length)
            if positions == "learned"
            else Sinusoid(dim, layout=POSITIONS[positions])
        )
        _give_bias(self.output)
        for layer in (*self.encoder, *self.decoder):
            layer.feedforward = Activated(dim, ffn_dim, activation_dropout, activation)
        for module in self.modules():
            if isinstance(module, MultiHead):
                for projection in (module.query, module.key, module.value, module.out):
                    _give_bias(projection)
            elif isinstance(module, nn.LayerNorm):
                module.eps = epsilon

    def _lengths(self, source: Tensor, lengths: Tensor | None) -> Tensor:
        whole = lengths_of(source, lengths)
        return whole if self.reads_end else (whole - 1).clamp(min=1)

    def _embed(self, embedding: nn.Embedding, ids: Tensor, at: int | Tensor) -> Tensor:
        x = embedding(ids)
        placed: Tensor = self.position(x if self.scale == 1.0 else x * self.scale, at + self.first)
        return dropout(placed, self.dropout, self.training)


class Activated(FeedForward):
    """The feed-forward layer with another function than the ReLU.

    Args:
        activation: one of `ACTIVATIONS`.
    """

    def __init__(self, dim: int, ffn_dim: int, dropout: float, activation: str) -> None:
        super().__init__(dim, ffn_dim, dropout)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Two products with the function between."""
        hidden = ACTIVATIONS[self.activation](self.into(x))
        out: Tensor = self.out(dropout(hidden, self.dropout, self.training))
        return out

    def extra_repr(self) -> str:
        """Say the function."""
        return self.activation


def _give_bias(linear: Any) -> None:
    weight = linear.weight
    linear.bias = nn.Parameter(torch.zeros(len(weight), dtype=weight.dtype, device=weight.device))
