"""Derivatives of derivatives of what is computed outside autograd.

A fused kernel's backward pass is one call that autograd does not see into. Where its gradients are
to be differentiated again (`create_graph=True`: the pass then runs with gradients enabled) the same
function is computed once more by PyTorch's own operators, and their gradients are given.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["double_backward", "double_backward_wanted"]


def double_backward_wanted() -> bool:
    """Whether the gradients of the backward pass that calls this are to be differentiated again."""
    return torch.is_grad_enabled() and not torch.compiler.is_compiling()  # which traces backward


def double_backward(
    plain: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Any],
    grads: Sequence[Tensor | None],
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Gradients of `plain(*inputs)` that have a graph of their own.

    Args:
        plain: the function of the kernel, in operators that can be differentiated twice.
        inputs: what the kernel was called with, as autograd saved it.
        grads: those of its outputs, None where there is none.
        wanted: which of the inputs need one (`ctx.needs_input_grad`); for more inputs than that,
            none.

    Returns:
        a gradient, or None, for each of `wanted`
    """
    places = [i for i, (_, want) in enumerate(zip(inputs, wanted, strict=False)) if want]
    own = list(inputs)
    for i in places:  # views: one input may depend on another, and each wants its own share
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
