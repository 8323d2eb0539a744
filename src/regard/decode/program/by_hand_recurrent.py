"""RNNsearch packed for decoding: attention, gated unit, maxout and scores in one call of C a step.

The encoder is another call; the memory of the source is the model's own, and what is carried, one
state a hypothesis. A row of a product is [state | last word | context], each padded to a multiple
of 16.
"""

import ctypes
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Additive
from regard.attention.recording import active, note
from regard.attention.single_step import step_plan
from regard.decode.program.packed_weights import PackedLinear, Panels, known, plain
from regard.layers.rnn import RESETS, UPDATES, Gated
from regard.models.rnnsearch import RNNsearch
from regard.native.gate import Function, Struct, declare
from regard.protocols import Decoding, Encoded, Inputs, ids_of

__all__ = ["PackedRecurrent", "unsupported_reason"]


class _Unit(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("hidden", "kind", "before", "keep")),
        *((name, PackedLinear) for name in ("gates", "candidate")),
    ]


class _Plan(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in "embed hidden align context maxout kind".split()),
        *((name, PackedLinear) for name in ("query", "into", "readout", "output")),
        ("unit", _Unit),
    ]


class _Reader(ctypes.Structure):
    _fields_ = [("embed", ctypes.c_int64), ("into", PackedLinear * 2), ("unit", _Unit * 2)]


_READ_CALL = Struct(
    "recurrent_read", "sentences = b", "source = t", "words = words", "embed = m",
    "hidden = {c // 2}", "tokens: i64 [b t]", "lengths: i64 [b]", "order: i64 [b]",
    "embedding: f32 [words m]", "states: f32 [b t c] out", "final: f32 [b {c // 2}] out",
)  # fmt: skip
_STEP_CALL = Struct(
    "recurrent_step", "rows = {b * w}", "width = w", "hidden = n", "embed = m", "words = words",
    "state: f32 [b w n]", "tokens: i64 [b w]", "embedding: f32 [words m]",
    "memory: struct additive_memory", "v: f32 [{memory.dim}]", "scale: double",
    "new_state: f32 [b w n] out", "logits: f32 [b w words] out",
    "looks: f32? [b w {memory.keys}] out",
)  # fmt: skip
declare("recurrent_unit", _Unit)
declare("recurrent_model", _Plan)
declare("recurrent_reader", _Reader)
_PLANNED = ("plan: struct plan", "call: struct call", "threads: threads")
_STEP = Function("regard_recurrent_step", *_PLANNED)
_READ = Function("regard_recurrent_read", *_PLANNED)


def unsupported_reason(model: RNNsearch) -> str | None:
    """Which part of an RNNsearch C does not support, in a clause, or None."""
    inner: Any = model.attention
    score = inner.score
    if (
        not plain(inner, (Additive,))
        or inner.mask
        or score.heads != 1
        or score.features is not None
    ):
        return "its attention is not the plain one"
    tables = model.embed_source, model.embed_target
    strange = any(one.scale != 1 or one.zeros[1:] for one in tables)
    if strange or model.readout.pieces != 2:
        return "its word vectors or its maxout units are not the plain ones"
    if not all(p.is_contiguous() for p in (score.v, *(one.weight for one in tables))):
        return "its weights are not laid out row by row"
    return None


class PackedRecurrent(Panels):
    """A `Generator` whose `step` is one call; everything else is the model's.

    Args:
        model: an `RNNsearch` for which `unsupported_reason` is None.
        precision: one of `PRECISIONS`.
    """

    def __init__(self, model: RNNsearch, precision: str = "float32") -> None:
        super().__init__(model, precision)
        n, m = model.recurrent.hidden, model.word.in_features
        c = model.context.in_features
        score: Any = model.attention.score
        plan = _Plan()
        plan.embed, plan.hidden, plan.context, plan.kind = m, n, c, self._kind
        plan.align, plan.maxout = len(score.v), model.output.in_features
        plan.query = self._matrix([_wide(score.query.weight, rows=False)], None)
        plan.into = self._inputs(model.word, model.context)
        plan.unit = self._unit(model.recurrent)
        linear = model.readout.linear
        parts = linear.weight.split([n, m, c], 1)
        plan.readout = self._matrix(
            [torch.cat([_wide(part, rows=False) for part in parts], 1)], [linear.bias]
        )
        plan.output = self._matrix([_wide(model.output.weight, rows=False)], [model.output.bias])
        self._plan, self._reader = plan, _Reader()
        self._reader.embed = model.encoder.ahead.input.in_features
        for i, one in enumerate((model.encoder.ahead, model.encoder.back)):
            self._reader.into[i] = self._inputs(one.input)
            self._reader.unit[i] = self._unit(one.recurrent)

    def _unit(self, unit: Gated) -> _Unit:
        """The recurrent part of a gated unit."""
        before, keep = RESETS[unit.reset], UPDATES[unit.update]
        gates = [_wide(gate) for gate in unit.weight.split(unit.hidden)]  # r, z, n
        products = self._matrix(gates[: 2 if before else 3], None), self._matrix(gates[2:], None)
        return _Unit(unit.hidden, self._kind, before, keep, *products)

    def _inputs(self, *layers: nn.Linear) -> PackedLinear:
        """What comes to r, z and n from several inputs side by side; biases are added up."""
        n = layers[0].out_features // 3
        gates = zip(*(layer.weight.split(n) for layer in layers), strict=True)
        weights = [torch.cat([_wide(weight) for weight in gate], 1) for gate in gates]
        biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
        if not biases:
            return self._matrix(weights, None)
        total = torch.stack(biases).sum(0).split(n)
        return self._matrix(weights, [_wide(bias[:, None])[:, 0] for bias in total])

    def encode(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> Encoded:
        """Annotations (B, S, 2H), zeros at padding, and the backward state at the first word."""
        model: RNNsearch = self.model
        source, lengths = ids_of(source, lengths)
        lengths = self._lengths(source, lengths)
        if not source.numel() or int(lengths.min()) < 1:
            return model.encode(source, lengths)
        source = known(source, len(model.embed_source.weight), "source")
        n = model.recurrent.hidden
        embedding = model.embed_source.weight
        states = embedding.new_zeros(*source.shape, 2 * n)
        final = embedding.new_empty(len(source), n)
        order = lengths.argsort(descending=True)
        call = _READ_CALL(source, lengths, order, embedding, states, final)
        self._run(_READ, self._reader, call, source.numel() * 500_000)
        return Encoded(states, lengths, final)

    def start(self, encoded: Encoded) -> Decoding:
        """As the model."""
        found: Decoding = self.model.start(encoded)
        return found

    def step(self, tokens: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        """One word a hypothesis: (B, beam) to logits (B, beam, V)."""
        model: RNNsearch = self.model
        memory = decoding.memories["source"]
        seen = step_plan(model.attention, memory)
        if seen is None or seen.table is None:
            return model.step(tokens, decoding)
        batch, width = tokens.shape
        state = decoding.carried["state"].contiguous()
        tokens = known(tokens, model.target_vocab_size, "tokens")
        new = torch.empty_like(state)
        logits = state.new_empty(batch, width, model.target_vocab_size)
        attention: Any = model.attention
        looks = state.new_zeros(batch, width, len(memory)) if active() else None
        v, scale = attention.score.v, 1 / attention.select.temperature
        embedding = model.embed_target.weight
        call = _STEP_CALL(state, tokens, embedding, seen.table, v, scale, new, logits, looks)
        self._run(_STEP, self._plan, call, batch * width * 1_000_000)
        if looks is not None:
            note(attention, looks)
        return logits, decoding.advance(state=new)


def _wide(weight: Tensor, *, rows: bool = True) -> Tensor:
    """Zeros behind the inputs, up to a multiple of 16, and behind the outputs where C pads them."""
    out, inputs = weight.shape
    return F.pad(weight.detach(), (0, -inputs % 16, 0, -out % 16 if rows else 0))
