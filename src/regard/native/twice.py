"""Second derivatives of functions computed outside autograd.

The backward pass of a fused kernel is opaque to autograd. If its gradients must be differentiable
(`create_graph=True`, where the backward pass runs with gradients enabled), the function is
recomputed with PyTorch's own operators, and their gradients are returned.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["double_backward", "double_backward_wanted"]


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
                [x for x, _ in pairs], [own[i] for i in places], [g for _, g in pairs],
                create_graph=True, allow_unused=True,
            )  # fmt: skip
            for i, share in zip(places, shares, strict=True):
                found[i] = share
    return tuple(found)
