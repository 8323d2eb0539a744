"""What runs the steps of a decoder: `explanation` says it, with the reasons where it is PyTorch."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from regard.decode.program.readers import reader_kept, unread_reason
from regard.decode.program.recordings import recorded_decoder

__all__ = ["StepExplanation", "explanation"]


@dataclass(frozen=True)
class StepExplanation:
    """What takes a model's steps.

    Args:
        backend: "program" (recorded, in C) or "model" (PyTorch).
        instructions: of the program; 0 where there is none.
        pieces: calls of C a step.
        by_torch: operations that PyTorch computes between them, each with why C does not.
        reasons: why it is no program, in clauses.
        encoder: instructions of the program that reads sources; 0: the model reads them.
        encoder_reason: why the model reads them, in a clause.
        one_by_one: why a search takes its steps one by one, in a clause; None: C takes several in
            one call, where nothing else is asked of the search.
    """

    backend: str
    instructions: int = 0
    pieces: int = 0
    by_torch: tuple[tuple[str, str], ...] = ()
    reasons: tuple[str, ...] = ()
    encoder: int = 0
    encoder_reason: str | None = None
    one_by_one: str | None = None

    def __str__(self) -> str:
        if self.backend == "model":
            return f"its own step, by PyTorch: {'; '.join(self.reasons)}"
        calls = "one call of C for several steps"
        if self.one_by_one is not None:
            count = "one call" if self.pieces == 1 else f"{self.pieces} calls"
            why = "" if self.by_torch else f", because {self.one_by_one}"
            calls = f"{count} of C a step{why}"
        said = f"a recorded program, {self.instructions} instructions in {calls}"
        if not self.by_torch:
            return said
        counted = Counter(name for name, _ in self.by_torch)
        named = ", ".join(name if n == 1 else f"{n} {name}" for name, n in counted.items())
        return f"{said}; PyTorch computes {named}"

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return asdict(self) | {"said": str(self), "encoder_said": self.encoder_said}

    @property
    def encoder_said(self) -> str:
        """What reads its sources."""
        if self.encoder:
            return f"a recorded program, {self.encoder} instructions in C, without padding"
        why = "" if self.encoder_reason is None else f"; no program: {self.encoder_reason}"
        return f"its own encoder{why}"


def explanation(model: Any) -> StepExplanation:
    """What takes the steps of a model, or has taken them, on this machine.

    Args:
        model: a `Generator` in eval mode. A program is recorded with the first batch that is
            decoded; before that its backend is "model".
    """
    decoder, why = recorded_decoder(model)
    reader = reader_kept(model)
    encoder = 0 if reader is None else reader.instructions
    unread = None if encoder else unread_reason(model)
    if decoder is None:
        reasons = () if why is None else (why,)
        return StepExplanation("model", 0, 0, (), reasons, encoder, unread)
    by_torch = [(one.node.short, one.why) for one in decoder.lowered.hosts]
    counts = decoder.instructions, decoder.pieces
    alone = decoder.one_by_one_reason
    return StepExplanation("program", *counts, (*by_torch,), (), encoder, unread, alone)
