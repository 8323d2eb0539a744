"""A Transformer packed for decoding: one call of C a step, and one for the whole encoder.

A step of a small model is some seventy PyTorch calls on little work. Here all layers are run for
all hypotheses in one call (and all layers of the encoder in one, without its padding). The cache is
a block a step that is written once; hypotheses find their past by the rows of their ancestors, so a
beam that is re-ordered moves no keys.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Causal, ScaledDot
from regard.attention._recorder import active, note
from regard.attention.mask import take
from regard.decode.panels import Linear, Panels, known, plain
from regard.errors import RequestError
from regard.layers.feedforward import FeedForward
from regard.layers.norm import PreNorm
from regard.models.marian import Activated, Marian
from regard.models.transformer import DecoderLayer, Transformer
from regard.native.gate import Function, Struct, declare, expect
from regard.protocols import Decoding, Encoded, Inputs, ids_of

__all__ = ["PackedTransformer", "unsupported_reason"]

ACTIVATIONS = {"relu": 1, "swish": 2}


class _Norm(ctypes.Structure):
    _fields_ = [("gamma", ctypes.c_int64), ("beta", ctypes.c_int64)]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, Linear) for name in ("qkv", "out", "cross", "cross_out", "into", "onto")),
        ("norms", _Norm * 3),
    ]


_STEP_CALL = Struct(
    "transformer_step", "rows = {s * w}", "width = w", "past = {t - 1}", "source: long",
    "stride = t", "dim = d", "words: long", "ancestors: i32 [s w t]", "starts: i64? [s]",
    "x: f32 [{s * w} d]", "blocks: address", "block_rows: address", "memories: i64 [s layers]",
    "keys: i64 [s]", "lengths: i64 [s]", "logits: f32? [s w words] out", "first: long",
    "count: long", "values: f32? [s w count] out", "ids: i64? [s w count] out", "layers: long",
    "heads: long",
    "own_looks: f32? [layers s w heads 1 t] out",
    "cross_looks: f32? [layers s w heads source] out",
)  # fmt: skip
_ENCODE_CALL = Struct(
    "transformer_encode", "sentences = s", "source = t", "layers: long", "dim = d",
    "x: f32 [s t d]", "lengths: i64 [s]", "states: f32 [s t d] out", "memory: address",
    "memories: address", "stacked: long", "heads: long",
    "looks: f32? [stacked s heads t t] out",
)  # fmt: skip
_PLANNED = ("plan: struct plan", "call: struct call", "threads: threads")
_STEP = Function("regard_transformer_step", *_PLANNED)
_ENCODE = Function("regard_transformer_encode", *_PLANNED)


class _Plan(ctypes.Structure):
    """What C calls `model`, without its layers."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("layers", "dim", "inner", "heads", "hidden", "kind",
                                              "pre", "act", "widest")),
        ("eps", ctypes.c_double),
        ("output", Linear),
        ("last", _Norm),
    ]  # fmt: skip


declare("transformer_layer", _Layer)
declare("transformer_model", _Plan)


def _plan(layers: int) -> type[ctypes.Structure]:
    return type("_WholePlan", (_Plan,), {"_fields_": [("layer", _Layer * layers)]})


def unsupported_reason(model: Any) -> str | None:
    """Which part of a Transformer C does not support, in a clause, or None."""
    if model.follow:
        return "it follows the words of its source"
    sizes = {layer.self_attention.query.out_features for layer in (*model.encoder, *model.decoder)}
    if len(sizes) != 1:
        return "it has no layers, or its layers differ in size"
    for layers, mask in ((model.encoder, None), (model.decoder, Causal())):
        for layer in layers:
            why = _other(layer, mask)
            if why is not None:
                return why
    return None


def _other(layer: Any, mask: Causal | None) -> str | None:
    """What a layer has that C does not do."""
    own = layer.self_attention
    cross = layer.cross_attention if isinstance(layer, DecoderLayer) else own
    for attention in (own, cross):
        inner: Any = attention.attention
        expected = mask if attention is own else None
        if not plain(inner, ScaledDot) or inner.mask != expected or inner.select.temperature != 1:
            return "its attention is not the plain one"
    inner_size, heads = own.query.out_features, own.heads
    hidden = layer.feedforward.into.out_features
    sizes = inner_size // heads, own.query.in_features, hidden
    if any(size % 16 for size in sizes) or own.value.out_features != inner_size:
        return "its sizes are no multiples of 16"
    if cross.query.out_features != inner_size or cross.value.out_features != inner_size:
        return "its two attentions differ in size"
    if type(layer.feedforward) not in (FeedForward, Activated):
        return "its feed-forward layer is not the plain one"
    if getattr(layer.feedforward, "activation", "relu") not in ACTIVATIONS:
        return "its activation is not in C"
    return None


class PackedTransformer(Panels):
    """A `Generator` whose `step` is one call; everything else is the model's.

    Args:
        model: a `Transformer` for which `unsupported_reason` is None.
        precision: one of `PRECISIONS`.
    """

    def __init__(self, model: Transformer, precision: str = "float32") -> None:
        super().__init__(model, precision)
        self._plan = self._stack(model.decoder, model.decoder_norm, model.output)
        self._encoder = self._stack(model.encoder, model.encoder_norm, None)
        self._memory = (Linear * len(model.decoder))()
        for n, layer in enumerate(model.decoder):
            cross: Any = layer.cross_attention
            self._memory[n] = self._linear(cross.key, cross.value)

    def _stack(self, layers: Any, last: nn.Module, output: nn.Linear | None) -> Any:
        """The plan of an encoder or a decoder."""
        first = layers[0]
        into, own = first.feedforward.into, first.self_attention
        plan: Any = _plan(len(layers))()
        plan.layers, plan.dim, plan.inner = len(layers), into.in_features, own.query.out_features
        plan.heads, plan.hidden, plan.kind = own.heads, into.out_features, self._kind
        plan.pre = isinstance(first.self_residual, PreNorm)
        plan.act = ACTIVATIONS[getattr(first.feedforward, "activation", "relu")]
        plan.widest = max(3 * plan.inner, plan.hidden)
        plan.eps = first.self_residual.norm.eps
        if output is not None:
            plan.output = self._linear(output)
        if isinstance(last, nn.LayerNorm):
            plan.last = self._norm(last)
        for to, layer in zip(plan.layer, layers, strict=True):
            own, feed = layer.self_attention, layer.feedforward
            to.qkv = self._linear(own.query, own.key, own.value)
            to.out = self._linear(own.out)
            to.into, to.onto = self._linear(feed.into), self._linear(feed.out)
            to.norms[0] = self._norm(layer.self_residual.norm)
            to.norms[2] = self._norm(layer.feedforward_residual.norm)
            if isinstance(layer, DecoderLayer):
                to.cross = self._linear(layer.cross_attention.query)
                to.cross_out = self._linear(layer.cross_attention.out)
                to.norms[1] = self._norm(layer.cross_residual.norm)
        return plan

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """Read sources (B, S): states (B, S, D), zeros at padding, and each layer's memory."""
        model = self.model
        source, lengths = ids_of(source, lengths)
        lengths = self._lengths(source, lengths)
        source = known(source, len(model.embed_source.weight), "source")
        if isinstance(model, Marian) and not model.reads_end:
            lengths = (lengths - 1).clamp(min=1)
        x = model._embed(model.embed_source, source, 0).contiguous()
        states = torch.zeros_like(x)
        layers = len(model.decoder)
        memories = x.new_zeros(layers, *source.shape, 2 * self._plan.inner)
        each = (ctypes.c_int64 * layers)(*(m.data_ptr() for m in memories))
        looks, stacked, heads = None, len(model.encoder), self._encoder.heads
        if active():
            sentences, width = source.shape
            looks = x.new_zeros(stacked, sentences, heads, width, width)
        call = _ENCODE_CALL(
            layers, x, lengths, states, ctypes.addressof(self._memory), ctypes.addressof(each),
            stacked, heads, looks,
        )  # fmt: skip
        self._run(_ENCODE, self._encoder, call, source.numel() * 1_000_000)
        for layer, weights in zip(model.encoder, () if looks is None else looks, strict=False):
            note(layer.self_attention, weights)
        return Encoded(states, lengths, extra={"memories": tuple(memories)})

    def start(self, encoded: Encoded) -> Decoding:
        """The encoder made the memories; nothing is carried yet."""
        source = _Source.of(encoded.extra["memories"], encoded.lengths, self._plan.inner)
        return Decoding({"source": source}, {"past": _Past()})

    def joined(self, first: Decoding, second: Decoding) -> Decoding:
        """A decoding with the sentences of a second one, which has read nothing yet, behind."""
        if second.step:
            raise RequestError("joined: expected a decoding before its first step as the second")
        more: _Source = second.memories["source"]
        source = first.memories["source"].joined(more)
        past = first.carried["past"].joined(len(more.keys))
        return Decoding({"source": source}, {"past": past}, first.step)

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One token a hypothesis: (B, beam) to logits (B, beam, V)."""
        logits = torch.empty(*tokens.shape, self.model.target_vocab_size)
        return logits, self._step(tokens, decoding, logits)

    def leading(
        self, tokens: Tensor, decoding: Decoding, first: int, count: int
    ) -> tuple[Tensor, Tensor, Decoding]:
        """A step and its best next words, without writing what all words have."""
        count = min(count, self.model.target_vocab_size - first)
        values = torch.empty(*tokens.shape, count)
        ids = torch.empty(*tokens.shape, count, dtype=torch.int64)
        return values, ids, self._step(tokens, decoding, None, first, count, values, ids)

    def _step(
        self,
        tokens: Tensor,
        decoding: Decoding,
        logits: Tensor | None,
        first: int = 0,
        count: int = 0,
        values: Tensor | None = None,
        ids: Tensor | None = None,
    ) -> Decoding:
        """Fill in what is asked for."""
        model, source, past = self.model, decoding.memories["source"], decoding.carried["past"]
        sentences, width = tokens.shape
        rows = sentences * width
        place = decoding.step if past.starts is None else len(past.blocks) - past.starts[:, None]
        x = model._embed(model.embed_target, tokens[..., None], place).contiguous()
        block = x.new_empty(len(model.decoder), 2, rows, self._plan.inner)
        past = past.longer(block, sentences, width)
        steps = len(past.blocks)
        blocks = (ctypes.c_int64 * steps)(*(b.data_ptr() for b in past.blocks))
        sizes = (ctypes.c_int64 * steps)(*(b.shape[2] for b in past.blocks))
        keys, layers, heads = source.widest, len(model.decoder), self._plan.heads
        looks: list[Tensor] = []
        if active():
            shape = layers, sentences, width, heads
            looks = [x.new_zeros(*shape, 1, steps), x.new_zeros(*shape, keys)]
        call = _STEP_CALL(
            keys, model.target_vocab_size, past.ancestors, past.starts, x.view(rows, -1),
            ctypes.addressof(blocks), ctypes.addressof(sizes), source.at, source.keys,
            source.lengths, logits, first, count, values, ids, layers, heads,
            *(looks or (None, None)),
        )  # fmt: skip
        self._run(_STEP, self._plan, call, rows * 1_000_000)
        for layer, own, cross in zip(model.decoder, *looks, strict=True) if looks else ():
            note(layer.self_attention, own)
            note(layer.cross_attention, cross.transpose(1, 2))  # (B, H, beam, S), as it is unpacked
        return decoding.advance(past=past)

    def _norm(self, norm: nn.LayerNorm) -> _Norm:
        return _Norm(self._hold(norm.weight.detach()), self._hold(norm.bias.detach()))


@dataclass(frozen=True)
class _Source:
    """Keys and values of each sentence's source for each layer, (S, 2 inner), where they lie.

    Shapes:
        at (n, layers): their addresses. keys, lengths, owner (n,): how many there are, how many
        are looked at, and which tensor of `held` they are in. All int64.
    """

    at: Tensor
    keys: Tensor
    lengths: Tensor
    owner: Tensor
    held: tuple[Tensor, ...]
    widest: int
    """As many keys as any sentence has, or more."""

    @classmethod
    def of(cls, pairs: Sequence[Tensor], lengths: Tensor, inner: int) -> "_Source":
        """Of one tensor (n, S, 2 inner) a layer."""
        n, size = len(lengths), pairs[0].shape[1]
        shape = n, size, 2 * inner
        first = [expect("the source's memory", p, torch.float32, shape) for p in pairs]
        apart = torch.arange(n)[:, None] * (4 * size * 2 * inner)
        keys = torch.full((n,), size, dtype=torch.int64)
        return cls(torch.tensor(first) + apart, keys, lengths, torch.arange(n) * 0, (*pairs,), size)

    def rows(self, index: Tensor) -> "_Source":
        """Keep some sentences."""
        at, keys, lengths, owner = (
            x.index_select(0, index) for x in (self.at, self.keys, self.lengths, self.owner)
        )
        return _Source(at, keys, lengths, owner, self.held, self.widest)

    def joined(self, other: "_Source") -> "_Source":
        """With the sentences of another behind; tensors that none is in any more are let go."""
        layers = self.at.shape[1]
        used = self.owner.unique().tolist()
        owner = torch.searchsorted(torch.tensor(used, dtype=torch.int64), self.owner)
        held = [t for n in used for t in self.held[n * layers : (n + 1) * layers]]
        return _Source(
            torch.cat([self.at, other.at]),
            torch.cat([self.keys, other.keys]),
            torch.cat([self.lengths, other.lengths]),
            torch.cat([owner, other.owner + len(used)]),
            (*held, *other.held),
            max(int(self.keys.max()), other.widest) if len(self.keys) else other.widest,
        )

    def __reduce__(self) -> Any:
        """Addresses are not to be copied."""
        raise TypeError("the state of a packed decoder stays where it is: it holds addresses")


@dataclass(frozen=True)
class _Past:
    """Blocks (layers, 2, rows, inner), one a step, and which row of each is a hypothesis's own.

    Shapes:
        ancestors (n, width, steps) int32. starts (n,) int64: the block of each sentence's first
        step; None: all began with the first.
    """

    blocks: tuple[Tensor, ...] = ()
    ancestors: Tensor | None = None
    starts: Tensor | None = None

    def longer(self, block: Tensor, sentences: int, width: int) -> "_Past":
        """With one step more, whose rows are the hypotheses in their order."""
        now = torch.arange(sentences * width, dtype=torch.int32).view(sentences, width, 1)
        ancestors = now if self.ancestors is None else torch.cat([self.ancestors, now], -1)
        return replace(self, blocks=(*self.blocks, block), ancestors=ancestors)

    def select(self, index: Tensor) -> "_Past":
        """Follow a beam that is re-ordered."""
        return (
            self if self.ancestors is None else replace(self, ancestors=take(self.ancestors, index))
        )

    def rows(self, index: Tensor) -> "_Past":
        """Keep some sentences."""
        if self.ancestors is None:
            return self
        starts = None if self.starts is None else self.starts.index_select(0, index)
        return replace(self, ancestors=self.ancestors.index_select(0, index), starts=starts)

    def joined(self, count: int) -> "_Past":
        """With so many sentences behind that begin with the next step.

        Blocks before the first step of all are let go.
        """
        known, now = self.ancestors, len(self.blocks)
        if known is None:
            return self
        starts = torch.zeros(len(known), dtype=torch.int64) if self.starts is None else self.starts
        starts = torch.cat([starts, torch.full((count,), now, dtype=torch.int64)])
        gone = int(starts.min())
        ancestors = torch.cat([known, known.new_zeros(count, *known.shape[1:])])[..., gone:]
        return _Past(self.blocks[gone:], ancestors.contiguous(), starts - gone)
