"""What a selection is."""

from typing import ClassVar, Protocol, runtime_checkable

from jaxtyping import Bool, Float
from torch import Tensor

__all__ = ["LogSelect", "Select"]


@runtime_checkable
class Select(Protocol):
    """Scores to weights.

    `sums` declares what the weights add up to ("over keys", "over queries", "at most 1", "free");
    `window` tells kernels that only a neighbourhood (left, right) of the query's position is
    scored.
    """

    sums: ClassVar[str]

    @property
    def window(self) -> tuple[int, int] | None:
        """The neighbourhood (left, right) that is scored, or None for all keys."""
        ...

    def __call__(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """Give weights, and the log-probability of the choice where there is one."""
        ...


@runtime_checkable
class LogSelect(Protocol):
    """A selection whose weights have a logarithm of their own, stable where the weights vanish."""

    def log_weights(
        self, scores: Float[Tensor, "..."], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "..."]:
        """Give the logarithm of the weights, minus infinity where nothing may be looked at."""
        ...


class OverAllKeys:
    """What selections without a window of their own share."""

    @property
    def window(self) -> tuple[int, int] | None:
        """All keys."""
        return None
