"""What runs the steps of a decoder: `explanation` says it, with the reasons where it is PyTorch."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from regard.decode.program.choosing import packed, unsupported_reason
from regard.decode.program.packed_weights import Panels
from regard.decode.program.recordings import recorded_decoder

__all__ = ["StepExplanation", "explanation"]


@dataclass(frozen=True)
class StepExplanation:
    """What takes a model's steps.

    Args:
        backend: "packed" (C written for this class), "program" (recorded, in C) or "model"
            (PyTorch).
        instructions: of the program; 0 where there is none.
        pieces: calls of C a step.
        by_torch: operations that PyTorch computes between them, each with why C does not.
        reasons: why it is not packed, and not a program, in clauses.
    """

    backend: str
    instructions: int = 0
    pieces: int = 0
    by_torch: tuple[tuple[str, str], ...] = ()
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.backend == "packed":
            return "packed: C written for this class"
        if self.backend == "model":
            return f"its own step, by PyTorch: {'; '.join(self.reasons)}"
        calls = "one call" if self.pieces == 1 else f"{self.pieces} calls"
        said = f"a recorded program, {self.instructions} instructions in {calls} of C a step"
        if not self.by_torch:
            return said
        counted = Counter(name for name, _ in self.by_torch)
        named = ", ".join(name if n == 1 else f"{n} {name}" for name, n in counted.items())
        return f"{said}; PyTorch computes {named}"

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return asdict(self) | {"said": str(self)}


def explanation(model: Any) -> StepExplanation:
    """What takes the steps of a model, or has taken them, on this machine.

    Args:
        model: a `Generator` in eval mode. A program is recorded with the first batch that is
            decoded; before that its backend is "model".
    """
    form = packed(model)
    if form is not model and isinstance(form, Panels):
        return StepExplanation("packed")
    decoder, why = recorded_decoder(model)
    reasons = [one for one in (unsupported_reason(model), why) if one is not None]
    if decoder is None:
        return StepExplanation("model", reasons=(*reasons,))
    by_torch = [(one.node.short, one.why) for one in decoder.lowered.hosts]
    return StepExplanation(
        "program", decoder.instructions, decoder.pieces, (*by_torch,), (*reasons,)
    )
