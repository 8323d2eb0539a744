"""What may be asked of a task's view, and how a task refuses what it cannot show."""

from dataclasses import dataclass, fields

from regard.errors import RequestError

__all__ = ["ViewOptions"]

_MEANT = {
    "target": "looks at an output that is given",
    "measure": "shows something else than weights",
    "hypotheses": "follows a hypothesis other than the best",
    "why": "tells how the score changes without each head",
}


@dataclass(frozen=True)
class ViewOptions:
    """What `Task.view` is asked for.

    Args:
        target: look at this output, not at the model's own.
        measure: "weights", or a key of `watching.measures.MEASURES`.
        hypotheses: how many of the best are followed; None is every one that the decoder has.
        why: how the score changes without each head.
        folder: where the model came from, for the command that shows the same again.
    """

    target: str | None = None
    measure: str = "weights"
    hypotheses: int | None = None
    why: bool = False
    folder: str = ""

    def only(self, *known: str, task: str) -> None:
        """Refuse what was asked for and is not known here.

        Args:
            known: names of options that the task can use.

        Raises:
            RequestError: something else was asked for.
        """
        for one in fields(self):
            if one.name in known or one.name not in _MEANT:
                continue
            value = getattr(self, one.name)
            if value == one.default or (one.name == "hypotheses" and value == 1):
                continue
            asked = "hypothesis" if one.name == "hypotheses" else one.name
            raise RequestError(
                f"{asked}: no view of the task {task!r} {_MEANT[one.name]}; leave it out"
            )
