"""What a layer gives, and what it should: shared by the features of `docs/pytorch.md`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attended, kernels
from tests.attention.torch_cases import Case


def output(attended: Attended) -> Tensor:
    """All that has a gradient: the context, and the log-probability of a choice."""
    if attended.log_prob is None or attended.log_prob.shape == attended.context.shape:
        return attended.context
    logs = attended.log_prob
    of_heads = logs.dim() == attended.context.dim()
    logs = logs.movedim(-2, -1) if of_heads else logs[..., None]
    return torch.cat([attended.context, logs.to(attended.context.dtype)], -1)


def call(layer: nn.Module, *inputs: Tensor) -> Tensor:
    """What the layer gives."""
    return output(layer(*inputs))


def exact(case: Case, rounded: torch.dtype = torch.float32) -> tuple[Tensor, list[Tensor]]:
    """The context and the gradients of the inputs and parameters, by the reference in float64."""
    layer = case.build().to(rounded).double()
    inputs = [x.double().requires_grad_() for x in case.inputs(dtype=rounded)]
    with kernels("reference"):
        found = call(layer, *inputs)
    return found.detach(), gradients(found, inputs, layer)


def gradients(found: Tensor, inputs: Any, layer: nn.Module) -> list[Tensor]:
    """Of a loss that weighs each number of the output differently."""
    wanted = [*inputs, *layer.parameters()]
    loss = (found * weighing(found)).sum()
    grads = torch.autograd.grad(loss, wanted, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, grads, strict=True)]


def weighing(x: Tensor) -> Tensor:
    """A different weight for each number."""
    count = x.numel()
    return torch.linspace(-1, 1, count, dtype=x.dtype).view(x.shape)


def close(found: Any, expected: Any, atol: float = 1e-5, rtol: float = 1e-4) -> None:
    """Equal within bounds, one tensor or several."""
    if isinstance(found, Tensor):
        found, expected = [found], [expected]
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x.double(), y.double(), atol=atol, rtol=rtol)


def learnt(case: Case, layer: nn.Module, run: Callable[..., Tensor], **bounds: float) -> None:
    """Forward and backward in float32 are what the reference says."""
    expected, grads = exact(case)
    inputs = [x.requires_grad_() for x in case.inputs()]
    found = run(*inputs)
    close(found, expected, **bounds)
    close(gradients(found, inputs, layer), grads, **bounds)
