r"""The halves of a split linear score, where the heads of a node are adjacent in memory.

.. math:: l_{nh} = a_h^\top x_{nh}

A graph layer projects its nodes once, (N, H D), and passes them to the score as a view (H, N, D).
A product per head then reads memory with strides, and its gradient has another memory order than
the nodes. This C function goes over the nodes once, forward and backward.
"""

from typing import Any

import torch
from torch import Tensor

from regard import native
from regard.native.derivatives import double_backward_wanted
from regard.native.gate import Function
from regard.native.operators import custom_op
from regard.native.transforms import followed

__all__ = ["halves"]

_FORWARD = Function(
    "regard_halves",
    "n",
    "h",
    "d",
    "x: f32 [n h d]",
    "vector: f32 [h d]",
    "out: f32 [n h] out",
    "threads: threads",
)
_BACKWARD = Function(
    "regard_halves_grad",
    "n",
    "h",
    "d",
    "x: f32 [n h d]",
    "vector: f32 [h d]",
    "grad: f32 [n h]",
    "of_x: f32 [n h d] out",
    "of_vector: f32 [threads h d] out",
    "threads: threads",
)
FEW = 1 << 15
"""Numbers below which a call costs more than it saves."""


def halves(x: Tensor, vector: Tensor) -> Tensor:
    """One number for each node and head.

    Shapes:
        x (*batch, [H,] N, D), vector ([H,] D) to (*batch, [H,] N, 1)
    """
    if _fits(x, vector):
        found: Tensor = _halves(x.transpose(0, 1), vector)
        return found.transpose(0, 1)[..., None]
    return torch.matmul(x, vector[..., None])


def _fits(x: Tensor, vector: Tensor) -> bool:
    return (
        x.dim() == 3
        and vector.dim() == 2
        and x.numel() >= FEW
        and x.device.type == "cpu"
        and x.dtype == vector.dtype == torch.float32
        and x.transpose(0, 1).is_contiguous()
        and followed(x, vector) is None
        and native.unavailable_reason("regard_halves") is None
    )


@custom_op("regard::halves", mutates_args=(), device_types="cpu")
def _halves(x: Tensor, vector: Tensor) -> Tensor:
    """(N, H, D) and (H, D) to (N, H)."""
    x, vector = x.contiguous(), vector.contiguous()
    out = x.new_empty(x.shape[:2])
    _FORWARD(x, vector, out, native.threads(x.numel()))
    return out


@_halves.register_fake
def _(x: Tensor, vector: Tensor) -> Tensor:
    return x.new_empty(x.shape[:2])


@custom_op("regard::halves_backward", mutates_args=(), device_types="cpu")
def _backward(grad: Tensor, x: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of x and of the vectors."""
    grad, x, vector = grad.contiguous(), x.contiguous(), vector.contiguous()
    threads = native.threads(2 * x.numel())
    of_x, of_vector = torch.empty_like(x), vector.new_zeros(threads, *vector.shape)
    _BACKWARD(x, vector, grad, of_x, of_vector, threads)
    return of_x, of_vector.sum(0)


@_backward.register_fake
def _(grad: Tensor, x: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), vector.new_empty(vector.shape)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, vector = ctx.saved_tensors
    if double_backward_wanted():  # PyTorch's own operators, which can be differentiated again
        return grad[..., None] * vector, (grad[..., None] * x).sum(0)
    of_x, of_vector = _backward(grad, x, vector)
    return of_x, of_vector


_halves.register_autograd(_gradients, setup_context=_save)
