"""What runs the steps of a decoder: `explanation` says it, with the reasons where it is PyTorch."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from regard.decode.program.choosing import packed, unsupported_reason
from regard.decode.program.packed_weights import Panels
from regard.decode.program.recorded_decoder import RecordedDecoder
from regard.decode.program.recordings import recorded_form, unrecorded_reason
from regard.protocols import Encoded

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
        said = f"a program of {self.instructions} instructions in C"
        if not self.by_torch:
            return said
        counted = Counter(name for name, _ in self.by_torch)
        named = ", ".join(name if n == 1 else f"{n} {name}" for name, n in counted.items())
        return f"{said}, in {self.pieces} pieces; PyTorch computes {named}"

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return asdict(self) | {"said": str(self)}


def explanation(model: Any, encoded: Encoded) -> StepExplanation:
    """What takes the steps of a model that decodes this batch; it is recorded if need be.

    Args:
        model: a `Generator` in eval mode.
        encoded: a batch that it has read, by `encode`.
    """
    form = packed(model)
    if form is not model and isinstance(form, Panels):
        return StepExplanation("packed")
    unpacked = unsupported_reason(model)
    form = recorded_form(model, encoded)
    if not isinstance(form, RecordedDecoder):
        why = unrecorded_reason(model)
        reasons = tuple(one for one in (unpacked, why) if one is not None)
        return StepExplanation("model", reasons=reasons)
    hosts = [
        (one.node.name.removeprefix("aten.").split(".")[0], one.why) for one in form.lowered.hosts
    ]
    return StepExplanation(
        "program",
        form.instructions,
        form.pieces,
        tuple(hosts),
        () if unpacked is None else (unpacked,),
    )
