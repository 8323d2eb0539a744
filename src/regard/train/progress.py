"""How far a training is, as its checkpoints say."""

from typing import Any

from regard.train.micro_batches import Place

__all__ = ["Progress"]


class Progress:
    """The progress of a training, saved in checkpoints."""

    def __init__(self) -> None:
        """At the beginning."""
        self.step = 0
        self.place = Place()
        self.epoch = 0.0
        self.best: float | None = None
        self.bests: dict[str, float] = {}  # of each metric that counts
        self.best_step = 0
        self.worse = 0  # validations in a row without a better score
        self.losses: list[float] = []  # on dev, of each validation, for schedules
        self.cpu = 0.0
        self.wall = 0.0
        self.tokens = 0
        self.done = ""  # why it ended
        self.phase = 0  # which of the task's phases; their number: the main one
        self.phase_began = (0, 0.0)  # the step and the epoch that it began after

    def state(self) -> dict[str, Any]:
        """As plain values."""
        return {**vars(self), "place": self.place.plain()}

    def restore(self, state: dict[str, Any]) -> None:
        """From plain values; an earlier version knew one phase, the linear start."""
        if "linear_steps" in state:
            state = {**state, "phase": int(not state["linear"] and state["linear_end"] is not None)}
            state["phase_began"] = (state["linear_steps"], state.pop("linear_end") or 0.0)
            state = {k: v for k, v in state.items() if k not in ("linear", "linear_steps")}
        vars(self).update({**state, "place": Place(*state["place"])})
