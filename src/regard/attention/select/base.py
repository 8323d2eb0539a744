"""The interface of selects."""

from typing import ClassVar, Protocol, runtime_checkable

from jaxtyping import Bool, Float
from torch import Tensor

__all__ = ["LogSelect", "Select", "is_over_all_keys"]


@runtime_checkable
class Select(Protocol):
    """Scores to weights.

    `sums` declares over which axis the weights sum to one ("over keys", "over queries"), or "at
    most 1", or "free". `window` tells kernels that only a neighborhood (left, right) of the
    query's position is scored.
    """

    sums: ClassVar[str]

    @property
    def window(self) -> tuple[int, int] | None:
        """The neighborhood (left, right) that is scored, or None for all keys."""
        ...

    def __call__(
        self,
        scores: Float[Tensor, "*batch query key"],
        *,
        query: Tensor | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        at: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """The weights, and the log-probability of the choice for selects that choose."""
        ...


@runtime_checkable
class LogSelect(Protocol):
    """A select with log-weights that are accurate where the weights underflow."""

    def log_weights(
        self, scores: Float[Tensor, "..."], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "..."]:
        """The logarithm of the weights, minus infinity for masked keys."""
        ...


class OverAllKeys:
    """The base of selects without a window."""

    @property
    def window(self) -> tuple[int, int] | None:
        """All keys."""
        return None


def is_over_all_keys(select: Select) -> bool:
    """Whether a select gives weights to all keys of a query, one number a pair."""
    kind = type(select)
    return (
        kind.sums == "over keys"
        and select.window is None
        and not getattr(kind, "one_hot", False)
        and not getattr(kind, "per_feature", False)
    )
