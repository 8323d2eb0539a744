"""Recording how a model reads texts, for encoders in C.

An encoder is recorded as it reads texts of one length: nothing of the recording is about padding.
C does with each text of a batch what that gives for it. Before a program is used, what it makes of
texts of different lengths is compared with what the model makes of them.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.attention.recording import Seen, watching
from regard.decode.program.folding import folded
from regard.decode.program.lowering import lower
from regard.decode.program.lowering_words import WordLowering
from regard.decode.program.recorded_encoder import STARTED, RecordedEncoder
from regard.decode.program.recorder import (
    ESCAPES,
    UNREPEATABLE,
    NotRecorded,
    Recorder,
    Recording,
    recorded_call,
)
from regard.decode.program.replay import Program
from regard.decode.program.rows import NotLowered
from regard.decode.program.shown_weights import AskedWeights, named
from regard.decode.program.structure import LIMIT
from regard.decode.program.tree import Ref, tensors
from regard.decode.program.unify import unify
from regard.protocols import PAD, Decoding, Encoded

__all__ = ["recorded_encoder"]

SIZES = ((2, 3), (5, 7), (3, 11))
"""Texts and words of each recording: none follows from another."""
LENGTHS = (9, 1, 13, 4)
"""Words of the texts that are compared."""
HEADED = 4
"""The axes of keys with heads: texts, heads, words, features."""
SPECIAL = 4
"""The ids before the words: padding, begin, end, unknown."""


@torch.inference_mode()
def recorded_encoder(
    model: Any, precision: str = "float32", *, weights: bool = False
) -> RecordedEncoder:
    """The encoder of a model in C, in eval mode.

    Args:
        precision: of the weights of products; the program is compared in float32.
        weights: it shows its weights of attention to who watches.

    Raises:
        NotRecorded, NotLowered: there is none, in a clause that says why.
    """
    words = getattr(model, "source_vocab_size", None)
    if not isinstance(words, int):
        raise NotRecorded("its sources are no texts")
    if not weights:
        with contextlib.suppress(NotRecorded, NotLowered):  # its `start` may do more than products
            return _made(model, words, precision, starts=True)
    return _made(model, words, precision, weights=weights)


def _made(
    model: Any, words: int, precision: str, *, weights: bool = False, starts: bool = False
) -> RecordedEncoder:
    """Record, lower and compare an encoder, and `start` with it where that is asked for."""
    program = _program(model, words, weights, starts)
    plain = RecordedEncoder(model, lower(program, kind=WordLowering))
    _compare(model, plain, words, weights)
    if precision == "float32":
        return plain
    apart = lower(program, apart=precision == "int8", kind=WordLowering)
    return RecordedEncoder(model, apart, precision)


def _program(model: Any, words: int, weights: bool, starts: bool) -> Program:
    recordings = [_record(model, _ids(words, *size), weights, starts) for size in SIZES]
    program = unify(recordings)
    program.shown = named(model, recordings[0].shown) if weights else []
    return folded(program)


def _ids(words: int, texts: int, size: int) -> Tensor:
    """Ids of ordinary words, spread over the vocabulary, without random numbers."""
    first = min(SPECIAL, words - 1)
    ids = first + torch.arange(texts * size) * 7 % max(1, words - first)
    return ids.view(texts, size)


def _record(model: Any, ids: Tensor, weights: bool, starts: bool) -> Recording:
    recorder = _EncoderRecorder()
    recorder.asked = AskedWeights(recorder.refuse) if weights else None
    lengths = torch.full((len(ids),), ids.shape[1])
    given: dict[str, Any] = {"tokens": ids, "lengths": lengths}
    given |= {"memories": {}, "carried": {}, "step": 0}
    with recorded_call(recorder, given) as recording:
        encoded = model.encode(ids, lengths)
        begun: Decoding = model.start(encoded) if starts else Decoding({})
    if begun.step:
        raise NotRecorded("a decoding that does not begin with its first step")
    if recorder.reason is not None:
        raise NotRecorded(recorder.reason)
    shown = [] if recorder.asked is None else recorder.asked.weights
    made = {"encoded": encoded, "memories": dict(begun.memories), "carried": dict(begun.carried)}
    trees = recorder.tree(made)
    recording.outputs = {**trees, "weights": shown}
    recording.shown = [] if recorder.asked is None else recorder.asked.owners
    return recording


class _EncoderRecorder(Recorder):
    """Lets a model ask one thing of values: whether nothing is padded. Here nothing is."""

    escapes = ESCAPES - {"__bool__"}
    unrepeatable: Mapping[torch.Tag, str] = {
        tag: reason
        for tag, reason in UNREPEATABLE.items()
        if tag is not torch.Tag.data_dependent_output
    }

    def leave(self, name: str, value: int | float) -> None:
        """A value became a number: see `_add`."""
        if not isinstance(value, bool):
            super().leave(name, value)

    def _add(self, name: str, function: Any, given: tuple[Any, dict[str, Any]], out: Any) -> None:
        super()._add(name, function, given, out)
        if isinstance(out, bool) and not self._asks_for_padding(given[0]):
            self.refuse("a value decides on the way")

    def _asks_for_padding(self, args: Any) -> bool:
        """Whether a truth value is (lengths == size).all()."""
        makers = {ref: node for node in self.recording.nodes for ref in node.makes}
        tokens, lengths = (self.recording.inputs[name].index for name in ("tokens", "lengths"))
        node = makers.get(args[0].index)
        if node is None or node.name != "aten.all.default":
            return False
        node = makers.get(node.args[0].index)
        return (
            node is not None
            and node.name == "aten.eq.Scalar"
            and node.args[0] == Ref(lengths)
            and node.args[1] == self.recording.shapes[tokens][1]
        )


def _compare(model: Any, encoder: RecordedEncoder, words: int, weights: bool) -> None:
    """Compare what both make of texts of different lengths.

    Raises:
        NotLowered: they differ.
    """
    lengths = torch.tensor(LENGTHS)
    inside = torch.arange(int(lengths.max())) < lengths[:, None]
    ids = _ids(words, *inside.shape).masked_fill(~inside, PAD)
    expected, seen = _read(model, lambda: model.encode(ids, lengths), weights)
    found, shown = _read(model, lambda: encoder.encode(model, ids, lengths), weights)
    if not torch.equal(expected.lengths, found.lengths) or expected.final is not None:
        raise NotLowered("an encoder that gives more than states")
    if expected.extra:
        raise NotLowered("an encoder that gives more than states")
    if STARTED in found.extra:
        _compare_memories(model.start(expected), found.extra[STARTED], inside)
    _check_close(expected.states[inside], found.states[inside])
    if list(seen) != list(shown):
        raise NotLowered("weights of other attentions")
    for name, record in seen.items():
        if len(record.steps) != len(shown[name].steps) or record.scopes != shown[name].scopes:
            raise NotLowered("weights of other attentions")
        for one, other in zip(record.steps, shown[name].steps, strict=True):
            real = inside[:, None, :, None] & inside[:, None, None, :]
            _check_close(one * real, other * real)


def _compare_memories(expected: Decoding, found: Decoding, inside: Tensor) -> None:
    """Compare what decoders read of the texts, but for the padding."""
    names = [list(part) for x in (expected, found) for part in (x.memories, x.carried)]
    if names[:2] != names[2:]:
        raise NotLowered("a decoding of another form")
    for name, memory in {**expected.carried, **expected.memories}.items():
        own = {**found.carried, **found.memories}[name]
        for one, other in zip(tensors(memory), tensors(own), strict=True):
            if one.dtype.is_floating_point:
                at = inside[:, None, :, None] if one.dim() == HEADED else inside[..., None]
                _check_close(one * at, other * at)
            elif not torch.equal(one, other):
                raise NotLowered("a memory with another mask")


def _read(model: Any, encode: Any, weights: bool) -> tuple[Encoded, Seen]:
    seen = Seen(model)
    if not weights:
        return encode(), seen
    with watching(seen):
        return encode(), seen


def _check_close(expected: Tensor, found: Tensor) -> None:
    if expected.shape != found.shape or not torch.isfinite(found).all():
        raise NotLowered("values of another form")
    worst = float((expected - found).abs().max()) if expected.numel() else 0.0
    if worst > LIMIT * max(1.0, float(expected.abs().max())):
        raise NotLowered(f"an encoder in C that is off by {worst:.2g}")
