r"""The Transformer. Vaswani et al., "Attention Is All You Need", NIPS 2017, arXiv 1706.03762.

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V                      (1)
    MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O                   3.2.2, no biases
    FFN(x)             = max(0, x W_1 + b_1) W_2 + b_2                     (2)
    each sub-layer     : LayerNorm(x + Dropout(Sublayer(x)))               3.1, 5.4 (post-norm)
    input              : Dropout(E x * sqrt(d) + PE)                       3.4, 3.5, 5.4
    restricted         : position i looks at r of them centered on i       4, `window` r

and instead of PE (Shaw, Uszkoreit and Vaswani 2018, arXiv 1803.02155; `position: {kind: shaw}`):

    e_ij = q_i . (k_j + a^K_ij) / sqrt(d_k),  z_i = Σ_j α_ij (v_j + a^V_ij),
    a_ij = w[clip(j - i, -c, c)]           in self-attention, a table for each layer and head;
                                           `relative` and `tables` are its ablations

Shapes: source (B, S) and target (B, T) ids; states (B, S, D); logits (B, T, V).

**Departs from the paper**: dropout of the feed-forward layer and of the attention weights,
pre-norm, other positions, windows and untied embeddings are parts that can be asked for; the
defaults are the paper's. The authors' code embeds padding as zero. Here its vector starts at zero
and stays there, but for a matrix that is tied to the output: as an output its row is learned. No
logit of a real position depends on it. The decoder's first input is an explicit start symbol (the
authors' code feeds a zero vector). A window of even r has one position more before than behind.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from regard.attention import Causal, Mask, MultiHead, Window
from regard.errors import RequestError, nearest
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.feedforward import FeedForward
from regard.layers.layout import BatchLayout
from regard.layers.norm import PostNorm, PreNorm, Residual
from regard.models._transformer_attention import (
    AttentionSettings,
    PositionSettings,
    cross_attention,
    self_attention,
)
from regard.protocols import PAD, Decoding, Encoded, Inputs, Output, ids_of, lengths_of
from regard.settings.check import section_of
from regard.settings.old_names import MODELS, renaming

__all__ = ["AttentionSettings", "PositionSettings", "Transformer"]

ENOUGH = 0.97
"""Share of real positions below which leaving out the padding pays."""
NORMS: dict[str, type[Residual]] = {"post": PostNorm, "pre": PreNorm}


@renaming(MODELS["transformer"])
class Transformer(nn.Module):
    """Attention only: an encoder and a decoder of `layers` layers each.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        dim: d_model.
        heads: h, of each attention.
        layers: N of the encoder, and of the decoder unless `decoder_layers` says otherwise.
        ffn_dim: d_ff, the width inside the feed-forward layer.
        dropout: on every sub-layer's output and on the embedded input.
        activation_dropout: inside the feed-forward layer; 0 in the paper.
        norm: "post" as printed, or "pre".
        tied: one matrix for both embeddings and the output (needs one vocabulary), "output" for
            the decoder's embedding and output only, or "none".
        attention: `AttentionSettings`, or its keys with values: `head_dim` (dim / heads),
            `value_head_dim` (the same), `dropout` of weights (0), `window` (all positions).
        position: `PositionSettings`, or its keys with values: `kind` (sinusoid, halves, learned,
            none, shaw, bias), `max_length` of learned ones, `clip`, `relative` and `tables` of
            relative ones.
    """

    normalized = False
    follow = False
    sections: ClassVar[Mapping[str, type]] = {
        "attention": AttentionSettings,
        "position": PositionSettings,
    }

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
        activation_dropout: float = 0.0,
        norm: str = "post",
        tied: str = "all",
        attention: AttentionSettings | Mapping[str, Any] | None = None,
        position: PositionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        attending = section_of(AttentionSettings, attention, "model.attention")
        placing = section_of(PositionSettings, position, "model.position")
        if tied == "all" and source_vocab_size != target_vocab_size:
            raise RequestError(
                f"tied='all' shares one embedding, so it expected one vocabulary; got "
                f"source_vocab_size={source_vocab_size}, target_vocab_size={target_vocab_size}: "
                "share the tokenizer, or take tied='output'"
            )
        for given, name, known in (
            (norm, "norm", tuple(NORMS)),
            (tied, "tied", ("all", "output", "none")),
        ):
            if given not in known:
                raise RequestError(f"no {name} is called {given!r}; {nearest(given, known)}")
        self.source_vocab_size, self.target_vocab_size = source_vocab_size, target_vocab_size
        self.dim, self.dropout = dim, dropout

        # === Embeddings ===
        self.embed_target = nn.Embedding(target_vocab_size, dim, padding_idx=PAD)
        self.embed_source = (
            self.embed_target
            if tied == "all"
            else nn.Embedding(source_vocab_size, dim, padding_idx=PAD)
        )
        self.output = nn.Linear(dim, target_vocab_size, bias=False)
        for embedding in (self.embed_target, self.embed_source):
            nn.init.normal_(embedding.weight, std=dim**-0.5)
            nn.init.zeros_(embedding.weight[PAD])
        if tied != "none":
            self.output.weight = self.embed_target.weight
        else:
            nn.init.xavier_uniform_(self.output.weight)
        self.position = placing.added(dim)
        self._add_decoder_input()

        # === Layers ===
        window = attending.window
        before = None if window is None else window // 2
        behind = None if window is None else (window - 1) // 2

        def cross() -> MultiHead:
            return cross_attention(dim, heads, attending)

        def own(mask: Mask | None, role: str) -> MultiHead:
            return self_attention(dim, heads, attending, placing, mask=mask, role=role)

        def feedforward() -> FeedForward:
            return FeedForward(dim, ffn_dim, activation_dropout)

        def residual() -> Residual:
            return NORMS[norm](dim, dropout)

        final = NORMS[norm].final
        self.encoder = nn.ModuleList(
            EncoderLayer(
                own(None if window is None else Window(before, behind), "encoder"),
                feedforward(),
                residual,
            )
            for _ in range(layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(own(Causal(before), "decoder"), cross(), feedforward(), residual)
            for _ in range(layers if decoder_layers is None else decoder_layers)
        )
        self.encoder_norm = nn.LayerNorm(dim, eps=1e-6) if final else nn.Identity()
        self.decoder_norm = nn.LayerNorm(dim, eps=1e-6) if final else nn.Identity()

    def _add_decoder_input(self) -> None:
        """Make what a subclass adds to the decoder's input; initialized before the layers are."""

    @classmethod
    def base(cls, vocabulary: int = 37_000, **changes: Any) -> "Transformer":
        """The base model: 44,101,632 parameters beside the embedding."""
        return cls(vocabulary, vocabulary, **changes)

    @classmethod
    def big(cls, vocabulary: int = 37_000, **changes: Any) -> "Transformer":
        """The big model: 176,283,648 parameters beside the embedding; dropout as for EN-DE."""
        big: dict[str, Any] = {"dim": 1024, "heads": 16, "ffn_dim": 4096, "dropout": 0.3}
        return cls(vocabulary, vocabulary, **(big | changes))

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """Read sources (B, S): states (B, S, D)."""
        source, lengths = ids_of(source, lengths)
        layout = BatchLayout(self._lengths(source, lengths), source.shape[1])
        return Encoded(self._read(source, layout), layout.lengths)

    def forward(
        self, source: Tensor | Inputs, target_in: Tensor, lengths: Tensor | None = None
    ) -> Output:
        """All positions at once: logits (B, T, V); at padding they mean nothing."""
        source, lengths = ids_of(source, lengths)
        theirs, own = self._lengths(source, lengths), _ends(target_in)
        sizes = source.shape[1], target_in.shape[1]
        ragged = self._trains_ragged(theirs, own, sizes)
        memory, layout = BatchLayout(theirs, sizes[0], ragged), BatchLayout(own, sizes[1], ragged)
        states = self._read(source, memory)
        x = layout.unpad(self._decoder_input(target_in, states, memory))
        for layer in self.decoder:
            x = layer(x, layout, states, memory)
        return Output(project(self.output, layout.pad(self.decoder_norm(x))), {})

    def start(self, encoded: Encoded) -> Decoding:
        """Project the encoder's states once for each decoder layer."""
        mask = BatchLayout(encoded.lengths, encoded.states.shape[1]).mask
        memories: dict[str, Any] = {
            str(i): layer.cross_attention.remember(encoded.states, mask=mask)
            for i, layer in enumerate(self._decoder())
        }
        return Decoding(memories)

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One token a hypothesis: (B, beam) to logits (B, beam, V); caches (B, beam, H, t, D)."""
        x, past = self._step_input(tokens, decoding)
        for i, layer in enumerate(self._decoder()):
            key = str(i)
            x, past[key] = layer.step(x, decoding.memories[key], decoding.carried.get(key))
        return self.output(self.decoder_norm(x)), decoding.advance(**past)

    def _lengths(self, source: Tensor, lengths: Tensor | None) -> Tensor:
        """How much of each source is read."""
        return lengths_of(source, lengths)

    def _read(self, source: Tensor, layout: BatchLayout) -> Tensor:
        """The encoder's states, in the given layout."""
        x = layout.unpad(self._embed(self.embed_source, source, 0))
        for layer in self.encoder:
            x = layer(x, layout)
        states: Tensor = self.encoder_norm(x)
        return states

    def _decoder_input(self, target_in: Tensor, states: Tensor, memory: BatchLayout) -> Tensor:
        """The decoder's input for all positions at once: (B, T, D)."""
        return self._embed(self.embed_target, target_in, 0)

    def _step_input(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, dict[str, Any]]:
        """The input of one step (B, beam, D), and what of it is carried to the next."""
        return self._embed(self.embed_target, tokens[..., None], decoding.step)[..., 0, :], {}

    def _trains_ragged(self, source: Tensor, target: Tensor, sizes: tuple[int, int]) -> bool:
        """Whether to train without padding: where there is enough, and attention can do it."""
        attentions = (layer for layer in self.modules() if isinstance(layer, MultiHead))
        if not (
            self.training
            and torch.is_grad_enabled()
            and all(layer.ragged_is_faster(max(sizes)) for layer in attentions)
        ):
            return False
        real = int(source.sum()) + int(target.sum())
        return real < ENOUGH * len(source) * sum(sizes)

    def _decoder(self) -> Iterable["DecoderLayer"]:
        return cast(Iterable[DecoderLayer], self.decoder)

    def _embed(self, embedding: nn.Embedding, ids: Tensor, at: int | Tensor) -> Tensor:
        x = embedding(ids) * math.sqrt(self.dim)
        placed: Tensor = self.position(x, at)
        return dropout(placed, self.dropout, self.training)


def _ends(ids: Tensor) -> Tensor:
    """Where the padding behind each sequence begins; there is a first input whatever its id."""
    places = torch.arange(1, ids.shape[1] + 1, device=ids.device)
    return ((ids != PAD) * places).amax(1).clamp(min=1)


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward layer."""

    def __init__(self, attention: MultiHead, feedforward: FeedForward, residual: Any) -> None:
        super().__init__()
        self.self_attention, self.feedforward = attention, feedforward
        self.self_residual, self.feedforward_residual = residual(), residual()

    def forward(self, x: Tensor, layout: BatchLayout) -> Tensor:
        """States of one layer to the next: (B, S, D), or without padding (N, D)."""

        def look(y: Tensor) -> Tensor:
            context: Tensor = self.self_attention(layout(y), layout(y), mask=layout.mask).context
            return context

        x = self.self_residual(x, look)
        out: Tensor = self.feedforward_residual(x, self.feedforward)
        return out


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder, then the feed-forward layer."""

    def __init__(
        self, attention: MultiHead, cross: MultiHead, feedforward: FeedForward, residual: Any
    ) -> None:
        super().__init__()
        self.self_attention, self.cross_attention = attention, cross
        self.feedforward = feedforward
        self.self_residual, self.cross_residual = residual(), residual()
        self.feedforward_residual = residual()

    def forward(
        self, x: Tensor, layout: BatchLayout, states: Tensor, memory: BatchLayout
    ) -> Tensor:
        """All positions at once: (B, T, D), with the encoder's states (B, S, D)."""

        def look(y: Tensor) -> Tensor:
            context: Tensor = self.self_attention(layout(y), layout(y)).context
            return context

        def look_across(y: Tensor) -> Tensor:
            seen = self.cross_attention(layout(y), memory(states), mask=memory.mask)
            context: Tensor = seen.context
            return context

        x = self.self_residual(x, look)
        x = self.cross_residual(x, look_across)
        out: Tensor = self.feedforward_residual(x, self.feedforward)
        return out

    def step(self, x: Tensor, memory: Any, past: Any) -> tuple[Tensor, Any]:
        """One position a hypothesis: x (B, beam, D); `past` is the cache, None at first."""

        def look_back(y: Tensor) -> Tensor:
            nonlocal past
            y = y[..., None, :]  # (B, beam, 1, D): hypotheses have pasts of their own
            layer = self.self_attention
            past = layer.remember(y) if past is None else layer.extend(past, y)
            context: Tensor = layer(y, past).context
            return context[..., 0, :]

        x = self.self_residual(x, look_back)
        x = self.cross_residual(x, lambda y: self.cross_attention(y, memory).context)
        out: Tensor = self.feedforward_residual(x, self.feedforward)
        return out, past
