"""The last layer of a model: logits now, or computed in chunks inside the loss.

Logits (B, T, V) are the largest tensor of a training step. A task that only needs their
cross-entropy runs its model inside `deferring()`. It then gets a `DeferredLogits`, from which
`losses.smoothed_cross_entropy` computes the loss and all gradients in chunks of rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["DeferredLogits", "deferring", "is_deferring", "project"]

_deferring: ContextVar[bool] = ContextVar("regard_deferring", default=False)


class DeferredLogits(NamedTuple):
    """Logits that are not computed yet: a linear layer and its input.

    Shapes:
        states (*batch, D), weight (V, D), bias (V,) or None
    """

    states: Tensor
    weight: Tensor
    bias: Tensor | None


@contextmanager
def deferring(wanted: bool = True) -> Iterator[None]:
    """Models in the block return `DeferredLogits` where they can."""
    token = _deferring.set(wanted)
    try:
        yield
    finally:
        _deferring.reset(token)


def is_deferring() -> bool:
    """Whether the caller takes scores that are not computed yet."""
    return not torch.compiler.is_compiling() and _deferring.get()


def project(layer: nn.Module, states: Tensor) -> Any:
    """`layer(states)`; inside `deferring()`, a `DeferredLogits` for a plain linear layer.

    Shapes:
        states (*batch, D) to (*batch, V)
    """
    if (
        is_deferring()
        and type(layer) is nn.Linear
        and not (layer._forward_hooks or layer._forward_pre_hooks)
    ):
        return DeferredLogits(states, layer.weight, layer.bias)
    return layer(states)
