"""A Transformer packed for decoding: one call of C a step, and one for the whole encoder.

A step of a small model is some seventy PyTorch calls on little work. Here all layers are run for
all hypotheses in one call (and all layers of the encoder in one, without its padding). The cache is
a block a step that is written once; hypotheses find their past by the rows of their ancestors, so a
beam that is re-ordered moves no keys.
"""

import ctypes
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Causal, ScaledDot
from regard.attention._recorder import active, note
from regard.attention.mask import take
from regard.decode.panels import Linear, Panels, plain
from regard.layers.feedforward import FeedForward
from regard.layers.norm import PreNorm
from regard.models.marian import Activated, Marian
from regard.models.transformer import DecoderLayer, Transformer
from regard.protocols import Decoding, Encoded

__all__ = ["PackedTransformer", "refuses"]

ACTIVATIONS = {"relu": 1, "swish": 2}
_STEP = ("regard_transformer_step", "ppt")
_ENCODE = ("regard_transformer_encode", "ppt")


class _Norm(ctypes.Structure):
    _fields_ = [("gamma", ctypes.c_int64), ("beta", ctypes.c_int64)]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, Linear) for name in ("qkv", "out", "cross", "cross_out", "into", "onto")),
        ("norms", _Norm * 3),
    ]


class _Call(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "rows", "width", "past", "source", "stride", "x", "blocks", "block_rows", "ancestors",
            "memories", "lengths", "logits", "own_looks", "cross_looks",
        )
    ]  # fmt: skip


class _Encoding(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "sentences", "source", "layers", "x", "lengths", "states", "memory", "memories",
            "looks",
        )
    ]  # fmt: skip


def _plan(layers: int) -> type[ctypes.Structure]:
    sizes = "layers", "dim", "inner", "heads", "hidden", "kind", "pre", "act", "widest"
    fields = [
        *((name, ctypes.c_int64) for name in sizes),
        ("eps", ctypes.c_double),
        ("output", Linear),
        ("last", _Norm),
        ("layer", _Layer * layers),
    ]
    return type("_Plan", (ctypes.Structure,), {"_fields_": fields})


def refuses(model: Any) -> str | None:
    """What of a Transformer is not done in C, in a clause; None where all is."""
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
        model: a `Transformer` that `refuses` does not refuse.
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

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Encoded:
        """Read sources (B, S): states (B, S, D), zeros at padding, and each layer's memory."""
        model = self.model
        lengths = self._lengths(source, lengths)
        if isinstance(model, Marian) and not model.reads_end:
            lengths = (lengths - 1).clamp(min=1)
        x = model._embed(model.embed_source, source, 0).contiguous()
        states = torch.zeros_like(x)
        layers = len(model.decoder)
        memories = x.new_zeros(layers, *source.shape, 2 * self._plan.inner)
        each = (ctypes.c_int64 * layers)(*(m.data_ptr() for m in memories))
        looks = x.new_zeros(0)
        if active():
            sentences, width = source.shape
            heads = self._encoder.heads, width, width
            looks = x.new_zeros(len(model.encoder), sentences, *heads)
        call = _Encoding(
            *source.shape, layers, x.data_ptr(), lengths.data_ptr(), states.data_ptr(),
            ctypes.addressof(self._memory), ctypes.addressof(each),
            looks.data_ptr() if len(looks) else 0,
        )  # fmt: skip
        self._run(_ENCODE, self._encoder, call, source.numel() * 1_000_000)
        for layer, weights in zip(model.encoder, looks, strict=False):
            note(layer.self_attention, weights)
        return Encoded(states, lengths, extra={"memories": tuple(memories)})

    def start(self, encoded: Encoded) -> Decoding:
        """The encoder made the memories; nothing is carried yet."""
        source = _Source(encoded.extra["memories"], encoded.lengths)
        return Decoding({"source": source}, {"past": _Past()})

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One token a hypothesis: (B, beam) to logits (B, beam, V)."""
        model, source, past = self.model, decoding.memories["source"], decoding.carried["past"]
        sentences, width = tokens.shape
        rows = sentences * width
        x = model._embed(model.embed_target, tokens[..., None], decoding.step).contiguous()
        block = x.new_empty(len(model.decoder), 2, rows, self._plan.inner)
        past = past.longer(block, sentences, width)
        logits = x.new_empty(sentences, width, model.target)
        count = len(past.blocks)
        blocks = (ctypes.c_int64 * count)(*(b.data_ptr() for b in past.blocks))
        sizes = (ctypes.c_int64 * count)(*(b.shape[2] for b in past.blocks))
        memories = (ctypes.c_int64 * len(source.pairs))(*(p.data_ptr() for p in source.pairs))
        keys = source.pairs[0].shape[1]
        call = _Call(
            rows, width, count - 1, keys, past.ancestors.shape[-1], x.data_ptr(),
            ctypes.addressof(blocks), ctypes.addressof(sizes), past.ancestors.data_ptr(),
            ctypes.addressof(memories), source.lengths.data_ptr(),
            logits.data_ptr(),
        )  # fmt: skip
        looks = []
        if active():
            place = len(model.decoder), sentences, width, self._plan.heads
            looks = [x.new_zeros(*place, 1, count), x.new_zeros(*place, keys)]
            call.own_looks, call.cross_looks = (one.data_ptr() for one in looks)
        self._run(_STEP, self._plan, call, rows * 1_000_000)
        for layer, own, cross in zip(model.decoder, *looks, strict=True) if looks else ():
            note(layer.self_attention, own)
            note(layer.cross_attention, cross.transpose(1, 2))  # (B, H, beam, S), as it is unpacked
        return logits, decoding.advance(past=past)

    def _norm(self, norm: nn.LayerNorm) -> _Norm:
        return _Norm(self._hold(norm.weight.detach()), self._hold(norm.bias.detach()))


@dataclass(frozen=True)
class _Source:
    """Keys and values of the source for each layer, (n, S, 2 inner), and its lengths."""

    pairs: tuple[Tensor, ...]
    lengths: Tensor

    def rows(self, index: Tensor) -> "_Source":
        """Keep some sentences."""
        pairs = tuple(pair.index_select(0, index) for pair in self.pairs)
        return _Source(pairs, self.lengths.index_select(0, index))


@dataclass(frozen=True)
class _Past:
    """Blocks (layers, 2, rows, inner), one a step, and which row of each is a hypothesis's own.

    Shapes:
        ancestors (n, width, steps) int32
    """

    blocks: tuple[Tensor, ...] = ()
    ancestors: Tensor | None = None

    def longer(self, block: Tensor, sentences: int, width: int) -> "_Past":
        """With one step more, whose rows are the hypotheses in their order."""
        now = torch.arange(sentences * width, dtype=torch.int32).view(sentences, width, 1)
        ancestors = now if self.ancestors is None else torch.cat([self.ancestors, now], -1)
        return _Past((*self.blocks, block), ancestors)

    def select(self, index: Tensor) -> "_Past":
        """Follow a beam that is re-ordered."""
        return (
            self if self.ancestors is None else replace(self, ancestors=take(self.ancestors, index))
        )

    def rows(self, index: Tensor) -> "_Past":
        """Keep some sentences."""
        past = self.ancestors
        return self if past is None else replace(self, ancestors=past.index_select(0, index))
