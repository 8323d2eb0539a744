"""What a score is.

A score is called as `score(query, key, at=…, features=…)` and gives (*batch, Q, K). What depends on
the keys alone is done once per memory by `prepare`, and the call then takes what `prepare` gave.
A score that is a dot product in disguise says so by `as_dot`; kernels for dot products then do it.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

__all__ = ["AdditiveForm", "AdditiveLike", "DotForm", "DotLike", "Score", "StreamLike"]


class AdditiveForm(NamedTuple):
    """A score written as `v^T tanh(query + key)`; `packed` is what C made of the keys, if it did.

    Shapes:
        query (*batch, Q, D), key (*batch, K, D), v (D,), or (heads, D) for a last batch axis of
        heads
    """

    query: Tensor
    key: Tensor
    v: Tensor
    packed: Tensor | None = None
    heads: int = 1


class DotForm(NamedTuple):
    """A score written as `scale * query @ key^T`."""

    query: Tensor
    key: Tensor
    scale: float


@runtime_checkable
class Score(Protocol):
    """A match between queries and keys. `key` is what `prepare` gave for the keys."""

    def prepare(self, key: Tensor) -> Any:
        """Do once per memory what depends on the keys alone: a tensor or a tuple of them.

        Each has the keys' batch axes, and the keys on axis -2.
        """
        ...

    def __call__(
        self,
        query: Tensor,
        key: Any,
        *,
        at: int | Tensor = 0,
        features: Tensor | None = None,
    ) -> Tensor:
        """Score every pair: (*batch, Q, Dq), prepared keys (*batch, K, ·) to (*batch, Q, K)."""
        ...


@runtime_checkable
class AdditiveLike(Protocol):
    """A score that can be written as a sum of tanh."""

    def additive(
        self, query: Tensor, key: Tensor, prepared: Any, features: Tensor | None
    ) -> AdditiveForm:
        """Say the sum; `prepared` is None where no memory holds what was made of the keys."""
        ...


@runtime_checkable
class DotLike(Protocol):
    """A score that can be written as a dot product."""

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """Say the product."""
        ...


@runtime_checkable
class StreamLike(Protocol):
    """A score with a blockwise form that never stores a tensor of all pairs and features."""

    def stream(self, query: Tensor, key: Any, *, features: Tensor | None = None) -> Tensor:
        """Score every pair by blocks; `key` is what `prepare` gave for the keys."""
        ...
