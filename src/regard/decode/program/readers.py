"""Which models' sources are read by a recorded program, and these programs as long as they last.

The encoder of a generator is recorded when it first reads a text; `read` gives what the model's
`encode` gives, by C or by the model itself. `REGARD_PROGRAM=0` turns this off.
"""

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from regard.attention.recording import active, unseen, wants_calls
from regard.decode.ensemble import Ensemble, encoded_by_each
from regard.decode.program.encoder_recordings import recorded_encoder
from regard.decode.program.in_c import InC
from regard.decode.program.model_state import ModelState, failure
from regard.decode.program.recorded_encoder import RecordedEncoder, read_text
from regard.decode.program.structure import hooked, structure, unstable
from regard.protocols import Encoded, Inputs

__all__ = ["read", "reader_kept", "reader_of", "unread_reason"]


@dataclass
class _Readers:
    """A model's encoders in C, by precision and whether they show their weights of attention."""

    form: Any
    weights: Any
    made: dict[tuple[str, bool], RecordedEncoder | None] = field(default_factory=dict)
    reason: str | None = None


_READERS: "WeakKeyDictionary[nn.Module, _Readers]" = WeakKeyDictionary()


def read(
    model: Any,
    source: Tensor | Inputs,
    lengths: Tensor | None = None,
    precision: str = "float32",
    state: ModelState | None = None,
) -> Encoded:
    """What a generator's `encode` gives, in C where that can be.

    Args:
        model: in eval mode.
        precision: of the weights of products.
        state: of the model, if somebody has one.
    """
    if type(model) is Ensemble:
        return encoded_by_each(model, source, lengths, lambda m, s, n: read(m, s, n, precision))
    if not isinstance(model, InC) and isinstance(model, nn.Module):
        reader = reader_of(state or ModelState(model), precision)
        found = None if reader is None else read_text(reader, model, source, lengths)
        if found is not None:
            return found
    encoded: Encoded = model.encode(source, lengths)
    return encoded


def reader_of(state: ModelState, precision: str = "float32") -> RecordedEncoder | None:
    """The encoder of a model in C, which is made if there is none yet; None: there can be none."""
    if wants_calls() or state.refusal(precision) is not None:
        return None
    model = state.model
    known = _READERS.get(model)
    if known is None or known.form != state.form or (known.made and known.weights != state.weights):
        why = hooked(model) or unstable(model)
        known = _READERS[model] = _Readers(state.form, None, reason=why)
    if known.reason is not None:
        return None
    asked = precision, active()
    if asked not in known.made:
        known.weights = state.weights
        known.made[asked], why = _made(state, *asked)
        known.reason = why if asked == (precision, False) else None
    return known.made[asked]


def reader_kept(model: Any) -> RecordedEncoder | None:
    """The program in float32 that reads a model's sources, if one was made."""
    known = _READERS.get(model) if isinstance(model, nn.Module) else None
    return None if known is None else known.made.get(("float32", False))


def unread_reason(model: Any) -> str | None:
    """Why a model's encoder is its own, in a clause; None: it is in C, or nothing was read yet."""
    if not isinstance(model, nn.Module):
        return f"{type(model).__name__} is no module"
    state = ModelState(model)
    if (why := state.refusal()) is not None:
        return why
    known = _READERS.get(model)
    return None if known is None or known.form != state.form else known.reason


def _made(
    state: ModelState, precision: str, shows: bool
) -> tuple[RecordedEncoder | None, str | None]:
    """Record an encoder; the reason where that cannot be."""
    try:
        with unseen():
            found = recorded_encoder(state.model, precision, weights=shows)
        if structure(state.model) == state.form:
            return found, None
        why = "reading changes settings of the model"
    except Exception as error:  # the model goes on without a program, and says why
        why = failure(error, "it")
    return None, why
