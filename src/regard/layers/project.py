"""The last layer of a model: logits now, or put off until their loss is known.

Logits are the largest thing a training step makes: (B, T, V). A task that wants nothing of them but
a cross-entropy runs its model inside `deferring()` and gets a `Deferred` in their place, of which
`tasks.loss` makes the loss and all gradients some rows at a time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["Deferred", "deferring", "project"]

_deferring: ContextVar[bool] = ContextVar("regard_deferring", default=False)


class Deferred(NamedTuple):
    """Logits that are not made yet: a linear layer, and what goes into it.

    Shapes:
        states (*batch, D), weight (V, D), bias (V,) or None
    """

    states: Tensor
    weight: Tensor
    bias: Tensor | None


@contextmanager
def deferring(wanted: bool = True) -> Iterator[None]:
    """Models inside put their logits off, where they can."""
    token = _deferring.set(wanted)
    try:
        yield
    finally:
        _deferring.reset(token)


def project(layer: nn.Module, states: Tensor) -> Any:
    """`layer(states)`; inside `deferring()`, a `Deferred` for a plain linear layer.

    Shapes:
        states (*batch, D) to (*batch, V)
    """
    if (
        _deferring.get()
        and type(layer) is nn.Linear
        and not (layer._forward_hooks or layer._forward_pre_hooks)
        and not torch.compiler.is_compiling()
    ):
        return Deferred(states, layer.weight, layer.bias)
    return layer(states)
