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
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.attention.recording import active
from regard.decode.beam import Beam
from regard.decode.beam_search import BeamSearch
from regard.decode.decoder import Decoder
from regard.decode.eval_mode import frozen
from regard.decode.hypothesis import Hypothesis
from regard.decode.program import choosing as packing
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
    """Why sentences cannot join a search of this decoder and model, in a clause; None: they can."""
    if type(decoder) is not Beam:
        return f"{type(decoder).__name__} is no beam"
    plain = replace(
        decoder, coverage_penalty=0.0, no_repeat_ngram=0, repetition_penalty=1.0, min_length=0
    )
    if decoder != plain:
        return "the beam has rules or a coverage penalty, which count the steps of a batch"
    if active():
        return "somebody watches its attention"
    why = packing.unsupported_reason(model)
    if why is None and not isinstance(packing.packed(model, decoder.precision), Joining):
        why = f"{type(model).__name__} keeps the states of a batch together"
    return why


class RunningBeam:
    """A beam search under way.

    Args:
        decoder: a beam without rules and coverage penalty.
        model: what `packed` makes a packed Transformer of. Its weights stay those of this moment.

    Raises:
        RequestError: sentences cannot join such a search; `unsupported_reason` says why.
    """

    def __init__(self, decoder: Decoder, model: Generator) -> None:
        why = unsupported_reason(decoder, model)
        if why is not None or not isinstance(decoder, Beam):
            raise RequestError(f"running: expected a beam of a packed Transformer, and {why}")
        self.beam, self._model = decoder, model  # what is packed does not keep its model
        self._engine: Any = packing.packed(model, decoder.precision)
        self._search: BeamSearch | None = None
        self._count = 0

    def __len__(self) -> int:
        """How many sentences are being decoded."""
        return 0 if self._search is None else len(self._search.rows)

    def add(self, source: Tensor | Inputs, lengths: Tensor | None = None) -> list[int]:
        """Take sentences in; they begin with the next step.

        Returns:
            Their numbers, which no others get.
        """
        asked = Sources.of(source, lengths, None, None, ())
        if not len(asked.source):
            return []
        with frozen(self._engine), torch.inference_mode():
            request = self.beam._request(self._engine, asked)
            new = BeamSearch(self.beam, request, self._count)
            numbers, self._count = [*new.rows], self._count + len(new.rows)
            if self._search is None:
                new.widen()
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

    def step(self) -> dict[int, list[Hypothesis]]:
        """Go one step; give the hypotheses, best first, of those sentences that are finished."""
        search = self._search
        if search is None:
            return {}
        with frozen(self._engine), torch.inference_mode():
            keep = search.step()
            on = set(keep)
            done = [number for row, number in enumerate(search.rows) if row not in on]
            found = {number: search.best(number) for number in done}
            if keep:
                search.go_on(keep)
                search.forget(done)
            else:
                self._search = None
        return found
