"""A beam search that sentences join and leave while it goes on, for servers.

    running = RunningBeam(Beam(), model)
    numbers = running.add(source, lengths)
    while len(running):
        for number, hypotheses in running.step().items():
            ...
        # more may be added here, and some dropped

Sentences do not see each other, so what is found for one does not depend on what else is decoded,
nor on when it came. A batch that is decoded to its end has ever fewer sentences; here the places of
those that are finished are given to others.
"""

from collections.abc import Collection
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.attention.recording import active
from regard.decode.beam import Beam
from regard.decode.beam_search import BeamSearch
from regard.decode.decoder import Decoder
from regard.decode.eval_mode import frozen
from regard.decode.hypothesis import Hypothesis
from regard.decode.program.in_c import InC
from regard.decode.program.readers import read
from regard.decode.program.recorded_decoder import RecordedDecoder
from regard.decode.program.recordings import recorded_form, unrecorded_reason
from regard.decode.search_batch import Sources
from regard.errors import RequestError
from regard.protocols import Decoding, Generator, Inputs

__all__ = ["Joining", "RunningBeam", "unsupported_reason"]


@runtime_checkable
class Joining(Protocol):
    """A generator whose hypotheses need not all be at the same step."""

    def joined(self, first: Decoding, second: Decoding) -> Decoding:
        """A decoding with the sentences of a second one, which has read nothing yet, behind."""
        ...


def unsupported_reason(decoder: Any, model: Any) -> str | None:
    """Why sentences cannot join a search of this decoder and model, in a clause; None: they can.

    Most models have to be recorded first: `RunningBeam.begin` does, and says what was found.
    """
    if type(decoder) is not Beam:
        return f"{type(decoder).__name__} is no beam"
    if decoder.coverage_penalty:
        return "a coverage penalty watches its attention"
    if active():
        return "somebody watches its attention"
    if isinstance(model, InC):
        return _unjoined(model) if isinstance(model, Joining) else "its sentences cannot join"
    return unrecorded_reason(model)


def _unjoined(form: Any) -> str | None:
    return form.unjoined_reason if isinstance(form, RecordedDecoder) else None


def _refused(why: str | None) -> RequestError:
    return RequestError(f"running: expected a beam whose steps C takes, and {why}")


class RunningBeam:
    """A beam search under way.

    Args:
        decoder: a beam without a coverage penalty.
        model: a generator whose steps C takes. Its weights stay those of the first sentences.

    Raises:
        RequestError: sentences cannot join such a search; `unsupported_reason` says why.
    """

    def __init__(self, decoder: Decoder, model: Generator) -> None:
        why = unsupported_reason(decoder, model)
        if why is not None or not isinstance(decoder, Beam):
            raise _refused(why)
        self.beam, self._model = decoder, model  # what is in C does not keep its model
        self._engine: Any = model if isinstance(model, InC) else None
        self._search: BeamSearch | None = None
        self._count = 0
        self.steps = 0
        """How many were made so far."""

    @property
    def encodes_in_c(self) -> bool:
        """Whether C reads sentences, too; known after `begin`."""
        return isinstance(self._engine, RecordedDecoder) and self._engine.reader is not None

    def __len__(self) -> int:
        """How many sentences are being decoded."""
        return 0 if self._search is None else len(self._search.rows)

    def begin(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> None:
        """Record the model with a source, if that is not done yet; nothing is decoded.

        Raises:
            RequestError: sentences cannot join such a search.
        """
        asked, model = Sources.of(source, lengths, None, None, ()), self._model
        if self._engine is not None or not len(asked.source):
            return
        with frozen(model), torch.inference_mode():
            encoded = read(model, asked.inputs, asked.lengths, self.beam.precision)
            form = recorded_form(model, encoded, self.beam.precision)
        if not isinstance(form, RecordedDecoder):
            raise _refused(unrecorded_reason(model) or "it has no program for such inputs")
        why = _unjoined(form)
        if why is not None:
            raise _refused(why)
        self._engine = form

    def add(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> list[int]:
        """Take sentences in; they begin with the next step.

        Returns:
            Their numbers, which no others get.

        Raises:
            RequestError: see `begin`.
        """
        asked = Sources.of(source, lengths, None, None, ())
        if not len(asked.source):
            return []
        self.begin(source, lengths)
        with frozen(self._engine), torch.inference_mode():
            request = self.beam._request(self._engine, asked)
            new = BeamSearch(self.beam, request, self._count)
            new.widen()
            numbers, self._count = [*new.rows], self._count + len(new.rows)
            if self._search is None:
                self._search = new
            else:
                both = self._engine.joined(self._search.decoding, new.decoding)
                self._search.join(both, new)
        return numbers

    def drop(self, numbers: Collection[int]) -> None:
        """Decode these no further."""
        search = self._search
        if search is None or not numbers:
            return
        keep = [row for row, number in enumerate(search.rows) if number not in numbers]
        gone = [number for number in search.rows if number in numbers]
        if not keep:
            self._search = None
        elif gone:
            with torch.inference_mode():
                search.leave(keep)
            search.forget(gone)

    def step(self, most: int = 1) -> dict[int, list[Hypothesis]]:
        """Go one step; give the hypotheses, best first, of those sentences that are finished.

        Args:
            most: steps that C may take in one call, unless a sentence is finished before.
        """
        search = self._search
        if search is None:
            return {}
        before = search.at
        with frozen(self._engine), torch.inference_mode():
            keep = search.steps(most)
            self.steps += search.at - before
            on = set(keep)
            done = [number for row, number in enumerate(search.rows) if row not in on]
            found = {number: search.best(number) for number in done}
            if keep:
                search.go_on(keep)
                search.forget(done)
            else:
                self._search = None
        return found
