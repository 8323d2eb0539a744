"""What a score is.

A score is called as `score(query, key, at=…, features=…)` and gives (*batch, Q, K). What depends on
the keys alone is done once per memory by `prepare`, and the call then takes what `prepare` gave.
A score that is a dot product in disguise says so by `as_dot`; kernels for dot products then do it.
"""

from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

__all__ = ["DotForm", "DotLike", "Score", "Streaming"]


class DotForm(NamedTuple):
    """A score written as `scale * query @ key^T`."""

    query: Tensor
    key: Tensor
    scale: float


@runtime_checkable
class Score(Protocol):
    """A match between queries and keys. `key` is what `prepare` gave for the keys."""

    def prepare(self, key: Tensor) -> Tensor:
        """Do once per memory what depends on the keys alone."""
        ...

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Tensor:
        """Score every pair: (*batch, Q, Dq), prepared keys (*batch, K, ·) to (*batch, Q, K)."""
        ...


@runtime_checkable
class DotLike(Protocol):
    """A score that can be written as a dot product."""

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """Say the product."""
        ...


@runtime_checkable
class Streaming(Protocol):
    """A score with a blockwise form that never stores a tensor of all pairs and features."""

    def stream(self, query: Tensor, key: Tensor) -> Tensor:
        """Score every pair by blocks."""
        ...
