"""A Transformer packed for decoding on a CPU: one call of C a step, in float32, bfloat16 or int8.

A step of a small model is some seventy PyTorch calls on little work. `packed` lays a model's
weights out once, in panels that C reads straight through, and runs all layers for all hypotheses in
one call (and all layers of the encoder in one, without its padding). The cache is a block a step
that is written once; hypotheses find their past by the rows of their ancestors, so a beam that is
re-ordered moves no keys. What a model cannot be packed for (another mechanism, a watcher, a GPU)
runs as it is, and `refuses` says why.

    float32   the model's own numbers: what differs is the order of sums
    bfloat16  weights rounded to eight bits of significand; the rest stays float32
    int8      weights as bytes with one step an output, multiplied by rows as bytes with one step a
              row where the machine has VNNI; attention, norms and the cache stay float32
"""

import ctypes
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from regard.attention import Causal, ScaledDot, Softmax, WeightedSum
from regard.attention._kernels import native
from regard.attention._recorder import active, note, wants_calls
from regard.attention.mask import take
from regard.errors import RequestError
from regard.layers.feedforward import FeedForward
from regard.layers.norm import PreNorm
from regard.models.marian import Activated, Marian
from regard.models.transformer import DecoderLayer, Transformer
from regard.protocols import Decoding, Encoded, Output, lengths_of

__all__ = ["PRECISIONS", "Packed", "packed", "refuses"]

PRECISIONS = ("float32", "bfloat16", "int8")
PANEL = 32
ACTIVATIONS = {"relu": 1, "swish": 2}
_STEP = ("regard_transformer_step", "ppt")
_ENCODE = ("regard_transformer_encode", "ppt")
_VNNI = ("regard_vnni", "")


class _Linear(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("w", "scale", "bias", "inputs", "out")]


class _Norm(ctypes.Structure):
    _fields_ = [("gamma", ctypes.c_int64), ("beta", ctypes.c_int64)]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, _Linear) for name in ("qkv", "out", "cross", "cross_out", "into", "onto")),
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
        ("output", _Linear),
        ("last", _Norm),
        ("layer", _Layer * layers),
    ]
    return type("_Plan", (ctypes.Structure,), {"_fields_": fields})


def packed(model: Any, precision: str = "float32") -> Any:
    """The model packed for decoding, or the model itself where it cannot be and need not be.

    Packed weights are kept as long as the model is, and made anew when its weights have changed.

    Raises:
        RequestError: for a precision other than float32 of what cannot be packed.
    """
    why = refuses(model)
    if why is not None:
        if precision == "float32":
            return model
        raise RequestError(
            f"decode.precision: {precision} needs a decoder that can be packed, and {why}; "
            "leave it at float32"
        )
    now = tuple((p.data_ptr(), p._version) for p in model.parameters())
    kept = _KEPT.setdefault(model, {})
    found = kept.get(precision)
    if found is None or found[0] != now or found[1].level != native.level():
        found = kept[precision] = now, Packed(model, precision)
    return found[1]


def refuses(model: Any) -> str | None:
    """Why a model is not packed, in a clause; None where it is."""
    if type(model) not in (Transformer, Marian):
        return f"{type(model).__name__} is no plain Transformer"
    if native.function(*_STEP) is None:
        return f"there is no C ({native.missing() or 'the function is not in it'})"
    if wants_calls():
        return "somebody watches more of its attention than weights"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on"
    for name, p in model.named_parameters():
        if p.is_inference():
            return f"{name} was made in inference mode, where changes are not seen"
        if p.device.type != "cpu" or p.dtype != torch.float32:
            return f"{name} is {p.dtype} on {p.device.type}"
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
        kinds = type(inner.score), type(inner.select), type(inner.read)
        if kinds != (ScaledDot, Softmax, WeightedSum) or inner.position or inner.carry:
            return "its attention is not the plain one"
        expected = mask if attention is own else None
        if inner.mask != expected or inner.select.temperature != 1 or inner.read.scale is not None:
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


class Packed(nn.Module):
    """A `Generator` whose `step` is one call; everything else is the model's.

    Args:
        model: a `Transformer` that `refuses` does not refuse.
        precision: one of `PRECISIONS`.
    """

    normalized = False

    def __init__(self, model: Transformer, precision: str = "float32") -> None:
        super().__init__()
        self._model = ref(model)  # what is kept for a model must not keep it
        self.precision, self.level = precision, native.level()
        self._held: list[Tensor] = []
        self._kind = PRECISIONS.index(precision)
        if precision == "int8":
            vnni = native.function(*_VNNI)
            self._kind += bool(vnni and vnni())
        self._plan = self._stack(model.decoder, model.decoder_norm, model.output)
        self._encoder = self._stack(model.encoder, model.encoder_norm, None)
        self._memory = (_Linear * len(model.decoder))()
        for n, layer in enumerate(model.decoder):
            cross: Any = layer.cross_attention
            self._memory[n] = self._linear(cross.key, cross.value)

    @property
    def model(self) -> Any:
        """The model whose weights these are."""
        found = self._model()
        if found is None:
            raise RequestError(
                "the model that was packed is gone; keep it while its decoder is used"
            )
        return found

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
        lengths = lengths_of(source, lengths)
        if isinstance(model, Marian) and not model.reads_end:
            lengths = (lengths - 1).clamp(min=1)
        x = model._embed(model.embed_source, source, 0).contiguous()
        states = torch.zeros_like(x)
        lengths = lengths.long().contiguous()
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

    def forward(self, source: Tensor, target_in: Tensor, lengths: Tensor | None = None) -> Output:
        """As the model."""
        found: Output = self.model(source, target_in, lengths)
        return found

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

    def _run(self, name: tuple[str, str], plan: Any, call: Any, work: int) -> None:
        function = native.function(*name)
        assert function is not None
        address = ctypes.addressof
        failed = function(address(plan), address(call), native.threads(work))
        if failed == 1:
            raise MemoryError("no memory for a packed Transformer")
        if failed:
            raise RuntimeError("packed for other instructions than those in force")

    def _linear(self, *layers: nn.Linear) -> _Linear:
        """Weights side by side, in panels of 32 outputs."""
        weight = torch.cat([layer.weight.detach() for layer in layers])
        out, inputs = weight.shape
        short = -out % PANEL
        weight = nn.functional.pad(weight, (0, 0, 0, short)).view(-1, PANEL, inputs)
        scale = bias = None
        if any(layer.bias is not None for layer in layers):
            each: list[Tensor] = [
                layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias
                for layer in layers
            ]
            bias = nn.functional.pad(torch.cat(each).detach(), (0, short))
        if self._kind >= 2:
            scale = weight.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
            weight = (weight / scale).round().to(torch.int8)
        if self._kind == 3:
            weight = (weight.short() + 128).to(torch.uint8)
            weight = weight.view(-1, PANEL, inputs // 4, 4).transpose(1, 2)
        else:
            weight = weight.transpose(1, 2)
        if self._kind == 1:
            weight = weight.bfloat16()
        return _Linear(self._hold(weight), self._hold(scale), self._hold(bias), inputs, out)

    def _norm(self, norm: nn.LayerNorm) -> _Norm:
        return _Norm(self._hold(norm.weight.detach()), self._hold(norm.bias.detach()))

    def _hold(self, x: Tensor | None) -> int:
        """The address of a copy that lives as long as this does."""
        if x is None:
            return 0
        self._held.append(x.clone(memory_format=torch.contiguous_format))
        return self._held[-1].data_ptr()


_KEPT: "WeakKeyDictionary[nn.Module, dict[str, tuple[Any, Packed]]]" = WeakKeyDictionary()


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
