"""Which models are decoded by a recorded program, and their programs as long as they last.

A generator is recorded at its first batch: `recorded_form` gives its step in C, or the model. A
program belongs to the structure of the model (classes, settings, hooks), to its weights and to the
level of instructions; when one of these has changed it is recorded again. Each is compared with the
model's own `step` before it is used.

    float32   the model's own numbers: what differs is the order of sums
    bfloat16  weights rounded to eight bits of significand; the rest stays float32
    int8      weights as bytes with one step an output, multiplied by rows as bytes with one step a
              row; attention, norms, states and caches stay float32
`REGARD_PROGRAM=0` turns all of this off.
"""

import contextlib
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from regard.attention.recording import Seen, active, unseen, wants_calls, watching
from regard.decode.ensemble import Ensemble
from regard.decode.eval_mode import frozen
from regard.decode.program.folding import folded
from regard.decode.program.in_c import InC
from regard.decode.program.lowering import lower
from regard.decode.program.model_state import ModelState, failure
from regard.decode.program.probes import probes, states_after, words
from regard.decode.program.readers import read, reader_of
from regard.decode.program.recorded_decoder import RecordedDecoder
from regard.decode.program.recorder import NotRecorded
from regard.decode.program.replay import Program
from regard.decode.program.rows import NotLowered
from regard.decode.program.shown_weights import say_watched
from regard.decode.program.structure import LIMIT, hooked, structure, unstable
from regard.decode.program.tree import map_leaves
from regard.decode.program.unify import recorded
from regard.errors import RequestError
from regard.protocols import Decoding, Encoded, Inputs

__all__ = ["decoder_in_c", "recorded_decoder", "recorded_form", "rests", "unrecorded_reason"]


@dataclass
class _Entry:
    """A model's step in C, or the reason why there is none."""

    form: Any
    key: Any
    decoder: RecordedDecoder | None = None
    narrow: dict[str, RecordedDecoder] = field(default_factory=dict)  # by precision
    shows: dict[str, RecordedDecoder | None] = field(default_factory=dict)
    """The same with weights of attention as outputs, by precision; None: these cannot be had."""
    reason: str | None = None
    kinds: list[type] | None = None  # of a model whose form changes at every step: its classes

    def is_for(self, model: nn.Module, form: Any) -> bool:
        """Whether the model has the same form; a reason does not depend on its weights."""
        return self.form == form or self.kinds == _kinds(model)

    def is_current(self, state: ModelState) -> bool:
        """Whether the model is still as it was."""
        same = self.is_for(state.model, state.form)
        return same and (self.decoder is None or self.key == state.weights)


_ENTRIES: "WeakKeyDictionary[nn.Module, _Entry]" = WeakKeyDictionary()
_MET: "WeakKeyDictionary[nn.Module, Any]" = WeakKeyDictionary()
"""The weights with which a model in training decoded its last batch."""


def decoder_in_c(
    model: Any,
    source: Tensor | Inputs,
    lengths: Tensor | None = None,
    precision: str = "float32",
) -> Any:
    """A generator with its encoder and its steps in C, for a decoder in the model's place.

    A decoder finds the program of a model by itself, and compares all weights with those of the
    batch before: 2.4 ms for 7.6 million. What this gives is not compared: it is for a model whose
    weights do not change, and whose sentences come one by one. Keep the model as long.

    Args:
        model: a generator.
        source, lengths: a batch that it may read, to record it with.
        precision: of its weights, one of `PRECISIONS`.

    Raises:
        RequestError: there is no program; says why.

    Example:
        >>> from regard.decode import Greedy
        >>> from regard.models.transformer import Transformer
        >>> model = Transformer(9, 9, dim=16, heads=2, layers=1, ffn_dim=16)
        >>> ids = torch.tensor([[5, 6, 2]])
        >>> engine = decoder_in_c(model, ids)
        >>> Greedy()(engine, ids)[0][0].tokens == Greedy()(model, ids)[0][0].tokens
        True
    """
    with frozen(model), torch.inference_mode(), unseen():
        encoded = read(model, source, lengths, precision)
        found = recorded_form(model, encoded, precision)
    whole = isinstance(found, InC) or (
        isinstance(found, Ensemble) and all(isinstance(one, InC) for one in found.models)
    )
    if not whole:
        why = unrecorded_reason(model) or "it has no program for such inputs"
        raise RequestError(f"decoder_in_c: expected a model whose steps C takes, and {why}")
    return found


def rests(state: ModelState) -> bool:
    """Whether a model in training has the weights of its last batch: then recording it pays."""
    known = _MET.get(state.model)
    _MET[state.model] = state.weights
    return bool(known == state.weights)


def recorded_form(
    model: Any,
    encoded: Encoded,
    precision: str = "float32",
    *,
    watched: bool = False,
    state: ModelState | None = None,
) -> Any:
    """The model with its step as a recorded program in C, or the model itself.

    Args:
        model: what is about to decode, in eval mode; one in C stays as it is.
        encoded: the batch that it has read.
        precision: of the weights; a program in another one than float32 is made of what was
            compared with the model in float32.
        watched: somebody will look at the weights of its steps.
        state: of the model, if somebody has one.

    Raises:
        RequestError: another precision than float32 is asked for, and there is no program.
    """
    if type(model) is Ensemble:
        return _each_recorded(model, encoded, precision, watched)
    if isinstance(model, InC | Ensemble) or not isinstance(model, nn.Module):
        return model
    if type(encoded) is Encoded and not len(encoded.states):
        return model  # nothing to decode
    if wants_calls():
        say_watched(precision)
        return model
    state = state or ModelState(model)
    found = None if state.refusal(precision) is not None else _found(state, encoded)
    if found is not None and found.decoder is not None and (watched or active()):
        shows = _showing(model, encoded, found, precision)
        if shows is not None:
            return _reading(shows, state)
        if active():
            say_watched(precision)
            return model
    if precision != "float32":
        return _reading(_narrow(model, encoded, found, precision), state)
    return model if found is None or found.decoder is None else _reading(found.decoder, state)


def _reading(decoder: RecordedDecoder, state: ModelState) -> RecordedDecoder:
    """The decoder with the encoder of its model in C, where there is one."""
    decoder.reader = reader_of(state, decoder.precision)
    return decoder


def _each_recorded(ensemble: Ensemble, encoded: Encoded, precision: str, watched: bool) -> Ensemble:
    """The ensemble of its models' programs; those that have none stay as they are."""
    models: Any = ensemble.models
    given = zip(models, encoded.final, strict=True)
    each = [recorded_form(one, own, precision, watched=watched) for one, own in given]
    same = all(one is own for one, own in zip(each, models, strict=True))
    return ensemble if same else Ensemble(each, of=ensemble.model)


def _found(state: ModelState, encoded: Encoded) -> "_Entry | None":
    """A model's program, which is made if there is none yet."""
    if type(encoded) is not Encoded:
        return None
    entry = _ENTRIES.get(state.model)
    if entry is None or not entry.is_current(state):
        entry = _ENTRIES[state.model] = _made(state, encoded)
    return entry


def _narrow(model: nn.Module, encoded: Encoded, found: "_Entry | None", precision: str) -> Any:
    """A model's program with its weights in bfloat16 or bytes."""
    if found is None or found.decoder is None:
        why = unrecorded_reason(model) or f"{type(model).__name__} has no program for such inputs"
        raise RequestError(
            f"decode.precision: {precision} needs a decoder in C, and {why}; leave it at float32"
        )
    if precision not in found.narrow:
        with torch.inference_mode(), unseen():
            lowered = lower(_program(model, encoded), apart=precision == "int8")
            found.narrow[precision] = RecordedDecoder(model, lowered, precision)
    return found.narrow[precision]


def recorded_decoder(model: Any) -> tuple[RecordedDecoder | None, str | None]:
    """The program that takes a model's steps, or why there is none."""
    why = unrecorded_reason(model)
    entry = _ENTRIES.get(model) if why is None else None
    if entry is None or entry.form != structure(model):
        return None, why or "nothing was decoded yet, so it was not recorded"
    return entry.decoder, None


def unrecorded_reason(model: Any) -> str | None:
    """Why a model's steps are its own, in a clause; None: they are, or will be, a program in C.

    A model is recorded with its first batch; before that only what is known of its class is said.
    """
    if not isinstance(model, nn.Module):
        return f"{type(model).__name__} is no module"
    if model.training:
        return "it is in training mode"
    why = ModelState(model).refusal()
    if why is not None:
        return why
    entry = _ENTRIES.get(model)
    return entry.reason if entry is not None and entry.is_for(model, structure(model)) else None


def _kinds(model: nn.Module) -> list[type]:
    return [type(one) for one in model.modules()]


@torch.inference_mode()
def _made(state: ModelState, encoded: Encoded) -> _Entry:
    """Record a model, lower the program, and compare its steps with the model's."""
    model, form = state.model, state.form
    entry = _Entry(form, state.weights, reason=hooked(model) or unstable(model))
    if entry.reason is not None:
        return entry
    try:
        with unseen():
            decoder = RecordedDecoder(model, lower(_program(model, encoded)))
            why = _difference(model, decoder, encoded)
        if structure(model) != form:
            why, entry.kinds = "a step changes settings of the model", _kinds(model)
    except Exception as error:  # the model goes on without a program, and says why
        why = failure(error, "its step")
    entry.decoder, entry.reason = None if why else decoder, why
    return entry


def _program(model: Any, encoded: Encoded, *, weights: bool = False) -> Program:
    """The recorded step of a model. It knows the model, which nothing that is kept may do."""
    return folded(recorded(model, probes(model, encoded), weights=weights))


@torch.inference_mode()
def _showing(
    model: nn.Module, encoded: Encoded, entry: _Entry, precision: str
) -> RecordedDecoder | None:
    """A program that gives its weights of attention, made if there is none yet."""
    if precision not in entry.shows:
        entry.shows[precision] = None
        with contextlib.suppress(NotRecorded, NotLowered), unseen():
            program = _program(model, encoded, weights=True)
            if program.shown:
                lowered = lower(program, apart=precision == "int8")
                plain = RecordedDecoder(model, lowered)
                if _difference(model, plain, encoded) is None and _shows(model, plain, encoded):
                    narrow = precision != "float32"
                    found = RecordedDecoder(model, lowered, precision) if narrow else plain
                    found.begins = plain.begins
                    entry.shows[precision] = found
    return entry.shows[precision]


def _shows(model: Any, decoder: RecordedDecoder, encoded: Encoded) -> bool:
    """Whether watchers of a program see what they see of the model."""
    begun: Decoding = model.start(encoded).rows(torch.arange(3) % len(encoded.states))
    tokens, decoding = states_after(model, begun, 3, 2, 2)
    seen = []
    forms: list[Any] = [model, decoder]
    for form in forms:
        with watching(Seen(model)) as own:
            form.step(tokens, _apart(decoding))
        seen.append(own)
    expected, found = seen
    return list(expected) == list(found) and all(
        len(one.steps) == len(found[name].steps)
        and one.scopes == found[name].scopes
        and all(_close(*pair) for pair in zip(one.steps, found[name].steps, strict=True))
        for name, one in expected.items()
    )


def _close(expected: torch.Tensor, found: torch.Tensor) -> bool:
    return expected.shape == found.shape and _off(expected, found) is None


def _difference(model: Any, decoder: RecordedDecoder, encoded: Encoded) -> str | None:
    """How far steps in C are off the model's, at sizes of no probe; None where they are not."""
    rows = torch.arange(4) % len(encoded.states)
    begun = model.start(encoded).rows(rows)
    for steps in (0, 4):
        tokens, decoding = states_after(model, begun, 4, 3, steps)
        own, other = decoding, _apart(decoding)
        for again in range(2):
            expected, own = model.step(tokens, own)
            found, after = decoder.step(tokens, other)
            why = _off(expected, found)
            if not steps and not again and (why is not None or decoder.steps_of_model):
                decoder.begins = False  # the first step is the model's own
                found, after = decoder.step(tokens, other)
                why = _off(expected, found)
            if why is not None:
                return why
            order = torch.tensor([2, 0, 2]) % tokens.shape[1]
            own, other = (_selected(one, order) for one in (own, after))
            tokens = words(model, 12, again).view(4, 3)
    if decoder.steps_of_model > 2:
        return "its program is for no other sizes"
    return None


def _off(expected: torch.Tensor, found: torch.Tensor) -> str | None:
    """How far logits are off others; None where they are not."""
    finite = torch.isfinite(expected)
    if not torch.equal(finite, torch.isfinite(found)):
        return "its steps in C have other infinities"
    if not finite.any():
        return None
    worst = float((expected - found)[finite].abs().max())
    if worst > LIMIT * max(1.0, float(expected[finite].abs().max())):
        return f"its steps in C are off by {worst:.2g}"
    return None


def _apart(decoding: Decoding) -> Decoding:
    """The same state, whose memories may be extended once more: they share no spare room."""
    carried = map_leaves(dict(decoding.carried), lambda leaf: leaf)
    return Decoding(decoding.memories, carried, decoding.step)


def _selected(decoding: Decoding, order: torch.Tensor) -> Decoding:
    return decoding.select(order.expand(4, 3))
