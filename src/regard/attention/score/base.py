"""The interface of scores.

A score is called as `score(query, key, at=…, features=…)` and returns (*batch, Q, K). `prepare`
computes once per memory what depends only on the keys; its result is the `key` of the call. Scores
that can be written as a dot product implement `as_dot`, so kernels for dot products support them.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

__all__ = ["AdditiveForm", "AdditiveLike", "DotForm", "DotLike", "Score", "StreamLike"]


class AdditiveForm(NamedTuple):
    """A score written as `v^T tanh(query + key)`; `packed`: the keys as C prepared them, or None.

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
    """A match between queries and keys. `key` is the result of `prepare`."""

    def prepare(self, key: Tensor) -> Any:
        """Compute once per memory what depends only on the keys: a tensor or a tuple of tensors.

        Each has the batch axes of the keys, and the keys on axis -2.
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
        """The form of the sum; `prepared` is None if there is no memory."""
        ...


@runtime_checkable
class DotLike(Protocol):
    """A score that can be written as a dot product."""

    def as_dot(self, query: Tensor, key: Tensor) -> DotForm:
        """The form of the product."""
        ...


@runtime_checkable
class StreamLike(Protocol):
    """A score with a blockwise form that never stores a tensor of all pairs and features."""

    def stream(self, query: Tensor, key: Any, *, features: Tensor | None = None) -> Tensor:
        """Score every pair by blocks; `key` is the result of `prepare`."""
        ...
