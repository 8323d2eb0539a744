"""First derivatives that are computed outside autograd: a second one is refused aloud.

PyTorch's `once_differentiable` cuts the graph behind a gradient. `torch.autograd.grad` of something
that also depends on the input in another way then leaves the second derivative out without a word.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

__all__ = ["once_differentiable"]

_SAID = (
    "{} computes its gradient outside autograd, which therefore cannot differentiate it again; "
    "what can: attention, and PyTorch's own layers"
)

Backward = Callable[..., Any]


def once_differentiable(backward: Backward) -> Backward:
    """The backward of an autograd function, whose gradients refuse to be differentiated again.

    Raises:
        RuntimeError: where such a gradient is differentiated; at once, under `create_graph=True`,
            where the function kept nothing by which that could be seen
    """
    name = backward.__qualname__.removesuffix(".backward").strip("_")

    @wraps(backward)
    def found(ctx: Any, *grads: Tensor | None) -> Any:
        if not torch.is_grad_enabled():
            return backward(ctx, *grads)
        with torch.no_grad():
            made = backward(ctx, *grads)
        near = [x for x in (*grads, *ctx.saved_tensors) if x is not None and x.requires_grad]
        if not near:
            raise RuntimeError(_SAID.format(name))
        parts = made if isinstance(made, tuple) else (made,)
        kept = tuple(
            None if x is None else _Refuse.apply(name, x, *near)  # type: ignore[no-untyped-call]
            for x in parts
        )
        return kept if isinstance(made, tuple) else kept[0]

    return found


class _Refuse(torch.autograd.Function):
    """A gradient that depends on `near` in a way that nobody wrote down."""

    @staticmethod
    def forward(ctx: Any, name: str, grad: Tensor, *near: Tensor) -> Tensor:
        ctx.name = name
        return grad.view_as(grad)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise RuntimeError(_SAID.format(ctx.name))
