"""First derivatives computed outside autograd: second derivatives raise an error.

PyTorch's `once_differentiable` detaches a gradient. If the result also depends on the input in
other ways, `torch.autograd.grad` then silently omits a part of the second derivative.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor

__all__ = ["double_backward", "double_backward_wanted", "once_differentiable"]

_SAID = (
    "{} computes its gradient outside autograd, which therefore cannot differentiate it again; "
    "what can: attention, and PyTorch's own layers"
)

Backward = Callable[..., Any]


def once_differentiable(backward: Backward) -> Backward:
    """A backward function whose gradients raise an error if they are differentiated again.

    Raises:
        RuntimeError: when such a gradient is differentiated; immediately, under
            `create_graph=True`, if the function saved no tensor to attach the error to
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
    """A gradient that depends on `near`, without a known derivative."""

    @staticmethod
    def forward(ctx: Any, name: str, grad: Tensor, *near: Tensor) -> Tensor:
        ctx.name = name
        return grad.view_as(grad)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise RuntimeError(_SAID.format(ctx.name))


def double_backward_wanted() -> bool:
    """Whether the gradients of the current backward pass must be differentiable."""
    return torch.is_grad_enabled() and not torch.compiler.is_compiling()  # which traces backward


def double_backward(
    plain: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Any],
    grads: Sequence[Tensor | None],
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Differentiable gradients of `plain(*inputs)`.

    Args:
        plain: the function of the kernel in PyTorch's own operators.
        inputs: the inputs of the kernel, as saved by autograd.
        grads: the gradients of its outputs, or None.
        wanted: which inputs need a gradient (`ctx.needs_input_grad`); further inputs need none.

    Returns:
        a gradient, or None, for each of `wanted`
    """
    places = [i for i, (_, want) in enumerate(zip(inputs, wanted, strict=False)) if want]
    own = list(inputs)
    for i in places:  # views, because one input may depend on another
        own[i] = inputs[i].view_as(inputs[i])
    with torch.enable_grad(), torch.autocast(own[places[0]].device.type, enabled=False):
        made = plain(*own)
        outputs = made if isinstance(made, tuple) else (made,)
        pairs = [(x, g.to(x.dtype)) for x, g in zip(outputs, grads, strict=False) if g is not None]
        found: list[Tensor | None] = [None] * len(wanted)
        if pairs:
            shares = torch.autograd.grad(
                [x for x, _ in pairs],
                [own[i] for i in places],
                [g for _, g in pairs],
                create_graph=True,
                allow_unused=True,
            )
            for i, share in zip(places, shares, strict=True):
                found[i] = share
    return tuple(found)
