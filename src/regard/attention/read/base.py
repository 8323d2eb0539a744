"""The interface of reads."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

__all__ = ["Read"]


@runtime_checkable
class Read(Protocol):
    """Weights and values to a context."""

    def __call__(
        self,
        weights: Float[Tensor, "*batch query key"],
        value: Float[Tensor, "*#batch key value_dim"],
        *,
        at: int | Tensor = 0,
    ) -> Float[Tensor, "*batch query value_dim"]:
        """Compute the context."""
        ...
