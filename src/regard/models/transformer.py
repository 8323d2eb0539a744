r"""The Transformer. Vaswani et al., "Attention Is All You Need", NIPS 2017, arXiv 1706.03762.

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V                      (1)
    MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O                   3.2.2, no biases
    FFN(x)             = max(0, x W_1 + b_1) W_2 + b_2                     (2)
    each sub-layer     : LayerNorm(x + Dropout(Sublayer(x)))               3.1, 5.4 (post-norm)
    input              : Dropout(E x * sqrt(d) + PE)                       3.4, 3.5, 5.4
    restricted         : position i looks at r of them centered on i       4, `window` r

and instead of PE (Shaw, Uszkoreit and Vaswani 2018, arXiv 1803.02155; `positions: shaw`):

    e_ij = q_i . (k_j + a^K_ij) / sqrt(d_k),  z_i = Σ_j α_ij (v_j + a^V_ij),
    a_ij = w[clip(j - i, -c, c)]           in self-attention, a table for each layer and head;
                                           `relative` and `relative_tables` are its ablations

and with `follow`, which is ours, for a parser (6.3) that is told the next word, as in `lstm_a`:

    w_t   = Σ_{j<t} reads(y_j)             how many words have been written about
    input : Dropout(E y_{t-1} sqrt(d) + PE) + Dropout(W_f h_{w_t})         h: the encoder's states

Shapes: source (B, S) and target (B, T) ids; states (B, S, D); logits (B, T, V).

**Departs from the paper**: dropout of the feed-forward layer and of the attention weights,
pre-norm, other positions, windows and untied embeddings are parts that can be asked for; the
defaults are the paper's. The authors' code embeds padding as zero. Here its vector starts at zero
and stays there, but for a matrix that is tied to the output: as an output its row is learnt. No
logit of a real position depends on it. The decoder's first input is an explicit start symbol (the
authors' code feeds a zero vector). A window of even r has one position more before than behind.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.attention import (
    Attention,
    Causal,
    Mask,
    MultiHead,
    Read,
    RelativeBias,
    RelativeKeys,
    RelativeValues,
    ScaledDot,
    Score,
    WeightedSum,
    Window,
)
from regard.attention.mask import take
from regard.errors import RequestError, nearest
from regard.layers.deferred_logits import project
from regard.layers.dropout import dropout
from regard.layers.feedforward import FeedForward
from regard.layers.layout import BatchLayout
from regard.layers.norm import PostNorm, PreNorm, Residual
from regard.layers.positional_encoding import LearnedPositions, NoPositions, Sinusoid
from regard.protocols import PAD, Decoding, Encoded, Inputs, Output, ids_of, lengths_of

__all__ = ["Transformer"]

ENOUGH = 0.97
"""Share of real positions below which leaving out the padding pays."""
NORMS: dict[str, type[Residual]] = {"post": PostNorm, "pre": PreNorm}
POSITIONS: Mapping[str, Callable[[int, int], nn.Module]] = {
    "sinusoid": lambda dim, length: Sinusoid(dim),
    "halves": lambda dim, length: Sinusoid(dim, layout="halves"),
    "learned": LearnedPositions,
    "shaw": lambda dim, length: NoPositions(),  # self-attention knows them
    "bias": lambda dim, length: NoPositions(),
    "none": lambda dim, length: NoPositions(),
}


class Transformer(nn.Module):
    """Attention only: an encoder and a decoder of `layers` layers each.

    Args:
        source_vocab_size, target_vocab_size: sizes of the two vocabularies.
        dim: d_model.
        heads: h; each has d_k = `head_dim` (dim / heads) and d_v = `value_head_dim` (d_k).
        layers: N of the encoder, and of the decoder unless `decoder_layers` says otherwise.
        ffn_dim: d_ff, the width inside the feed-forward layer.
        dropout: on every sub-layer's output and on the embedded input.
        attention_dropout, activation_dropout: on weights and inside the FFN; 0 in the paper.
        norm: "post" as printed, or "pre".
        positions: "sinusoid" as printed, "halves" as in the authors' code, "learned",
            "none", or relative ones in self-attention: "shaw", or "bias" (a number for each offset
            and head, as in T5, without its buckets).
        max_length: layout of a learned position table.
        clip: c, the largest distance that relative positions tell apart.
        relative: what has relative vectors: "both" keys and values, or "keys" or "values" alone.
        relative_tables: one for each "head", as in Shaw's base model, or "shared" by all of a layer
            as in the big one.
        window: r, how many positions self-attention may look at: its own, r // 2 before and
            (r - 1) // 2 behind (in the decoder none behind); None: all.
        tied: one matrix for both embeddings and the output (needs one vocabulary), "output" for
            the decoder's embedding and output only, or "none".
        follow: the decoder reads the state of the next word that it has not written about. `reads`
            is 1 for symbols that stand for a word, 0 for others; the task fills it in.
    """

    normalized = False
    reads: Tensor

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
        head_dim: int | None = None,
        value_head_dim: int | None = None,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        norm: str = "post",
        positions: str = "sinusoid",
        max_length: int = 1024,
        clip: int = 16,
        relative: str = "both",
        relative_tables: str = "head",
        window: int | None = None,
        tied: str = "all",
        follow: bool = False,
    ) -> None:
        super().__init__()
        if tied == "all" and source_vocab_size != target_vocab_size:
            raise RequestError(
                f"tied='all' shares one embedding, so it expected one vocabulary; got "
                f"source_vocab_size={source_vocab_size}, target_vocab_size={target_vocab_size}: "
                "share the tokenizer, or take tied='output'"
            )
        for given, name, known in (
            (norm, "norm", tuple(NORMS)),
            (positions, "positions", tuple(POSITIONS)),
            (tied, "tied", ("all", "output", "none")),
            (relative, "relative", ("both", "keys", "values")),
            (relative_tables, "relative_tables", ("head", "shared")),
        ):
            if given not in known:
                raise RequestError(f"no {name} is called {given!r}; {nearest(given, known)}")
        if window is not None and window < 1:
            raise RequestError(f"window expected 1 position or more, or null for all; got {window}")
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
        self.position = POSITIONS[positions](dim, max_length)
        self.follow = follow
        if follow:
            self.follower = nn.Linear(dim, dim, bias=False)  # W_f
            self.register_buffer("reads", torch.zeros(target_vocab_size, dtype=torch.int64))

        # === Layers ===
        before = None if window is None else window // 2
        behind = None if window is None else (window - 1) // 2

        def multihead(inner: Attention) -> MultiHead:
            return MultiHead(dim, heads, inner, head_dim=head_dim, value_head_dim=value_head_dim)

        def cross() -> MultiHead:
            return multihead(Attention(read=WeightedSum(attention_dropout), role="cross"))

        def own(mask: Mask | None, role: str) -> MultiHead:
            if positions != "shaw":
                read: Read = WeightedSum(attention_dropout)
                bias = RelativeBias(clip, heads) if positions == "bias" else None
                return multihead(Attention(position=bias, read=read, mask=mask, role=role))
            size = dim // heads if head_dim is None else head_dim
            wide = size if value_head_dim is None else value_head_dim
            own_heads = heads if relative_tables == "head" else None
            score: Score = ScaledDot()
            read = WeightedSum(attention_dropout)
            if relative != "values":
                score = RelativeKeys(size, clip, heads=own_heads)
            if relative != "keys":
                read = RelativeValues(wide, clip, heads=own_heads, dropout=attention_dropout)
            return multihead(Attention(score, read=read, mask=mask, role=role))

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
        x = self._embed(self.embed_target, target_in, 0)
        if self.follow:
            places = self.reads[target_in].cumsum(1)
            x = x + self._following(places, memory.pad(states), theirs - 1)
        x = layout.unpad(x)
        for layer in self.decoder:
            x = layer(x, layout, states, memory)
        return Output(project(self.output, layout.pad(self.decoder_norm(x))), {})

    def start(self, encoded: Encoded) -> Decoding:
        """Project the encoder's states once for each decoder layer; no word is written about."""
        mask = BatchLayout(encoded.lengths, encoded.states.shape[1]).mask
        memories: dict[str, Any] = {
            str(i): layer.cross_attention.remember(encoded.states, mask=mask)
            for i, layer in enumerate(self._decoder())
        }
        if not self.follow:
            return Decoding(memories)
        memories |= {"states": encoded.states, "last": encoded.lengths - 1}
        return Decoding(memories, {"place": torch.zeros_like(encoded.lengths)[:, None]})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One token a hypothesis: (B, beam) to logits (B, beam, V); caches (B, beam, H, t, D)."""
        x = self._embed(self.embed_target, tokens[..., None], decoding.step)[..., 0, :]
        past = {}
        if self.follow:
            past["place"] = place = decoding.carried["place"] + self.reads[tokens]
            x = x + self._following(place, decoding.memories["states"], decoding.memories["last"])
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

    def _following(self, places: Tensor, states: Tensor, last: Tensor) -> Tensor:
        """W_f of the next words' states: places (B, Q), states (B, S, D), to (B, Q, D)."""
        next_words = take(states, torch.minimum(places, last[:, None]))
        return dropout(self.follower(next_words), self.dropout, self.training)

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
