"""What the axes of a recorded call mean, noted while it ran and never guessed from sizes later."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from torch import Tensor

if TYPE_CHECKING:
    from regard.attention.record import Record

__all__ = ["Axes", "Generated", "Positions"]


@runtime_checkable
class Generated(Protocol):
    """One run of `generate`, in which a call stood; it knows which row wrote which token."""

    def of(self, record: "Record", row: int) -> Tensor:
        """The weights of one returned sequence: (head, Q, K)."""


@dataclass(frozen=True)
class Positions:
    """Where in a text the places of an axis are: `start`, `start + 1`, and so on.

    Args:
        kind: "token" of what is written or read, "source" of what was read before.
    """

    start: int
    kind: str = "token"


@dataclass(frozen=True, eq=False)
class Axes:
    """What one recorded call's axes are.

    Args:
        batch: names of the axes before heads and queries: "example" where its size is the batch
            that the model was given, else a plain name ("window", "frame", "block", "call").
        heads: weights have an axis of heads behind those.
        rows, columns: their positions; None where these are not known.
        reason: why the first axis is not of examples: the rest of a sentence.
        part: which attention it was inside one call of its module, from 1.
        run: of `generate`, the run that the call belongs to.
        reading: in that run, the number of the model's call; -1 of what ran beside, as an encoder.
    """

    batch: tuple[str, ...] = ("example",)
    heads: bool = False
    rows: Positions | None = None
    columns: Positions | None = None
    reason: str = ""
    part: int = 1
    run: Generated | None = None
    reading: int = -1
