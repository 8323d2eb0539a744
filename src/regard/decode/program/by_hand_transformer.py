"""A Transformer packed for decoding: one call of C a step, and one for the whole encoder.

A step of a small model is some seventy PyTorch calls on little work. Here all layers are run for
all hypotheses in one call (and all layers of the encoder in one, without its padding). The cache is
a block a step that is written once; hypotheses find their past by the rows of their ancestors, so a
beam that is re-ordered moves no keys.
"""

import ctypes
import math
from types import NoneType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from regard.attention import (
    Causal,
    RelativeBias,
    RelativeKeys,
    RelativeValues,
    ScaledDot,
    WeightedSum,
    Window,
)
from regard.attention.mask import take
from regard.attention.recording import active, note
from regard.decode.program.caches import PackedPast, PackedSource
from regard.decode.program.embedding import placed
from regard.decode.program.packed_weights import PackedLinear, Panels, known, plain
from regard.errors import RequestError
from regard.layers.feedforward import FeedForward
from regard.layers.norm import PreNorm
from regard.models.marian import Activated, Marian
from regard.models.transformer import DecoderLayer, Transformer
from regard.native.gate import Function, Struct, declare
from regard.protocols import Decoding, Encoded, Inputs, ids_of

__all__ = ["PackedTransformer", "layer_form", "unsupported_reason"]

ACTIVATIONS = {"relu": 1, "swish": 2}
ALL = 2**62
"""More positions than there are."""


class _Norm(ctypes.Structure):
    _fields_ = [("gamma", ctypes.c_int64), ("beta", ctypes.c_int64)]


class _Near(ctypes.Structure):
    """Vectors and biases of the offsets between positions, or zeros."""

    _fields_ = [(name, ctypes.c_int64) for name in ("keys", "values", "biases")]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, PackedLinear) for name in ("qkv", "out", "cross", "cross_out", "into", "onto")),
        ("norms", _Norm * 3),
        ("near", _Near),
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
        *((name, ctypes.c_int64) for name in "layers dim inner heads hidden kind".split()),
        *((name, ctypes.c_int64) for name in "pre act widest clip columns before behind".split()),
        ("eps", ctypes.c_double),
        ("output", PackedLinear),
        ("last", _Norm),
    ]


declare("transformer_layer", _Layer)
declare("transformer_model", _Plan)


def _plan(layers: int) -> type[ctypes.Structure]:
    return type("_WholePlan", (_Plan,), {"_fields_": [("layer", _Layer * layers)]})


def unsupported_reason(model: Any) -> str | None:
    """Which part of a Transformer C does not support, in a clause, or None."""
    sizes = {layer.self_attention.query.out_features for layer in (*model.encoder, *model.decoder)}
    if len(sizes) != 1:
        return "it has no layers, or its layers differ in size"
    for layers, last in ((model.encoder, model.encoder_norm), (model.decoder, model.decoder_norm)):
        if len({layer_form(layer) for layer in layers}) > 1:
            return "its layers differ"
        if _uneven(layers[0]):
            return "its attentions differ in heads, or its norms in eps"
        if isinstance(last, nn.LayerNorm) and last.eps != layers[0].self_residual.norm.eps:
            return "its norms differ"
    for layers, masks in ((model.encoder, (NoneType, Window)), (model.decoder, (Causal,))):
        for layer in layers:
            why = _other(layer, masks)
            if why is not None:
                return why
        if masks == (Causal,) and any(_span(layer)[1] for layer in layers):
            return "its attention is not the plain one"  # it looks ahead when all is read at once
        if len({_span(layer) for layer in layers}) > 1:
            return "its windows differ in size"
        if len({clip for layer in layers for clip in _clips(layer)}) > 1:
            return "its relative positions are clipped at several distances"
    return None


def layer_form(layer: Any) -> tuple[Any, ...]:
    """What C reads from the first layer alone, and so all layers have to share."""
    feed, attentions, residuals = layer.feedforward, _attentions(layer), _residuals(layer)
    products = [one for a in attentions for one in (a.query, a.key, a.value, a.out)]
    return (
        type(feed),
        getattr(feed, "activation", "relu"),
        *(a.heads for a in attentions),
        *((p.in_features, p.out_features) for p in (*products, feed.into, feed.out)),
        *((type(r), type(r.norm), r.norm.eps, r.norm.normalized_shape) for r in residuals),
    )


def _attentions(layer: Any) -> list[Any]:
    crossing = isinstance(layer, DecoderLayer)
    return [layer.self_attention, layer.cross_attention] if crossing else [layer.self_attention]


def _residuals(layer: Any) -> list[Any]:
    crossing = [layer.cross_residual] if isinstance(layer, DecoderLayer) else []
    return [layer.self_residual, *crossing, layer.feedforward_residual]


def _uneven(layer: Any) -> bool:
    """Whether a layer has several numbers of heads, or several eps: C knows one of each."""
    heads = {attention.heads for attention in _attentions(layer)}
    return len(heads) > 1 or len({one.norm.eps for one in _residuals(layer)}) > 1


def _span(layer: Any) -> tuple[int, int]:
    """How many positions before and behind its own one its self-attention looks at."""
    mask = layer.self_attention.attention.mask or Window()
    left, right = (ALL if n is None else min(n, ALL) for n in (mask.left, mask.right))
    return left, right


def _clips(layer: Any) -> list[int]:
    """The largest distances that its self-attention's tables tell apart."""
    inner = layer.self_attention.attention
    tables = (RelativeKeys, RelativeValues, RelativeBias)
    parts = (inner.score, inner.read, inner.position)
    return [part.clip for part in parts if isinstance(part, tables)]


def _other(layer: Any, masks: tuple[type, ...]) -> str | None:
    """What a layer has that C does not do."""
    own = layer.self_attention
    cross = layer.cross_attention if isinstance(layer, DecoderLayer) else own
    for attention in (own, cross):
        inner: Any = attention.attention
        mine = attention is own
        scores = (ScaledDot, RelativeKeys) if mine else (ScaledDot,)
        reads = (WeightedSum, RelativeValues) if mine else (WeightedSum,)
        positions = (RelativeBias,) if mine else ()
        masked = type(inner.mask) not in (masks if mine else (NoneType,))
        if not plain(inner, scores, reads, positions) or masked or inner.select.temperature != 1:
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
        self._memory = (PackedLinear * len(model.decoder))()
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
        plan.clip = max((clip for layer in layers for clip in _clips(layer)), default=0)
        plan.columns = (2 * plan.clip + 16) // 16 * 16
        plan.before, plan.behind = _span(first)
        plan.eps = first.self_residual.norm.eps
        if output is not None:
            plan.output = self._linear(output)
        if isinstance(last, nn.LayerNorm):
            plan.last = self._norm(last)
        for to, layer in zip(plan.layer, layers, strict=True):
            own, feed = layer.self_attention, layer.feedforward
            to.qkv = self._linear(own.query, own.key, own.value)
            to.out, to.near = self._linear(own.out), self._near(own, plan.columns)
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
        memory_at, memories_at = ctypes.addressof(self._memory), ctypes.addressof(each)
        call = _ENCODE_CALL(
            layers, x, lengths, states, memory_at, memories_at, stacked, heads, looks
        )
        self._run(_ENCODE, self._encoder, call, source.numel() * 1_000_000)
        for layer, weights in zip(model.encoder, () if looks is None else looks, strict=False):
            note(layer.self_attention, weights)
        return Encoded(states, lengths, extra={"memories": tuple(memories)})

    def start(self, encoded: Encoded) -> Decoding:
        """The encoder made the memories; nothing is carried yet."""
        source = PackedSource.of(encoded.extra["memories"], encoded.lengths, self._plan.inner)
        memories: dict[str, Any] = {"source": source}
        carried: dict[str, Any] = {"past": PackedPast()}
        if self.model.follow:
            memories |= {"following": self._followed(encoded), "last": encoded.lengths - 1}
            carried["place"] = torch.zeros_like(encoded.lengths)[:, None]
        return Decoding(memories, carried)

    def _followed(self, encoded: Encoded) -> Tensor:
        """What each word adds to the input that is written next: W_f of its state, (B, S, D).

        Sentence by sentence, so that a sum is the same whatever others there are.
        """
        each = zip(encoded.states, encoded.lengths.tolist(), strict=True)
        return pad_sequence([self.model.follower(own[:n]) for own, n in each], batch_first=True)

    def joined(self, first: Decoding, second: Decoding) -> Decoding:
        """A decoding with the sentences of a second one, which has read nothing yet, behind."""
        if second.step:
            raise RequestError("joined: expected a decoding before its first step as the second")
        more: PackedSource = second.memories["source"]
        source = first.memories["source"].joined(more)
        past = first.carried["past"].joined(len(more.keys))
        memories: dict[str, Any] = {"source": source}
        carried: dict[str, Any] = {"past": past}
        if self.model.follow:
            memories |= {
                "following": pad_sequence(
                    [*first.memories["following"], *second.memories["following"]], batch_first=True
                ),
                "last": torch.cat([first.memories["last"], second.memories["last"]]),
            }
            width = first.carried["place"].shape[1]
            new = second.carried["place"].expand(-1, width)
            carried["place"] = torch.cat([first.carried["place"], new])
        return Decoding(memories, carried, first.step)

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
        x = placed(model, tokens, place)
        carried: dict[str, Any] = {}
        if model.follow:
            carried["place"] = words = decoding.carried["place"] + model.reads[tokens]
            last = decoding.memories["last"][:, None]
            x += take(decoding.memories["following"], torch.minimum(words, last))
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
        return decoding.advance(past=past, **carried)

    def _near(self, own: Any, columns: int) -> _Near:
        """Its tables (heads, offsets, size), the offsets of keys and of biases side by side."""

        def of_heads(table: Tensor) -> Tensor:
            each = table.detach().expand(own.heads, *table.shape[-2:])
            return nn.functional.pad(each, (0, 0, 0, columns - each.shape[1]))

        inner, near = own.attention, _Near()
        if isinstance(inner.score, RelativeKeys):
            near.keys = self._hold(of_heads(inner.score.table).transpose(1, 2))
        if isinstance(inner.read, RelativeValues):
            near.values = self._hold(of_heads(inner.read.table))
        if isinstance(inner.position, RelativeBias):
            root = math.sqrt(own.query.out_features // own.heads)  # C scales the sum
            near.biases = self._hold(root * of_heads(inner.position.table[..., None]))
        return near

    def _norm(self, norm: nn.LayerNorm) -> _Norm:
        return _Norm(self._hold(norm.weight.detach()), self._hold(norm.bias.detach()))
