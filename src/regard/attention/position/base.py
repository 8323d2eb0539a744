"""The interface of position parts."""

from typing import Protocol, runtime_checkable

from torch import Tensor

__all__ = ["Position"]


@runtime_checkable
class Position(Protocol):
    """Changes queries and keys before they are scored (`before`), or the scores (`bias`), or both.

    `at` is the position of the first query among the keys.

    A position that changes queries and keys alone (`biases = False`), and each row by its own place
    alone, may have `turn(x, first, *, back=False)` beside `before`: keys are then turned once, when
    they enter a memory, and not at each step. See `Rotary`.
    """

    def before(self, query: Tensor, key: Tensor, *, at: int | Tensor = 0) -> tuple[Tensor, Tensor]:
        """Change queries and keys."""
        ...

    def bias(self, scores: Tensor, query: Tensor, *, at: int | Tensor = 0) -> Tensor:
        """Change scores."""
        ...
