"""Dropout with sixteen random bits per element; on the CPU computed from a seed."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard import native
from regard.native.derivatives import double_backward_wanted
from regard.native.gate import Function
from regard.native.operators import custom_op
from regard.native.transforms import followed

__all__ = ["BITS", "FEW", "drawn", "dropout", "dropout_add", "dropout_relu"]

_DROPOUT = Function(
    "regard_dropout",
    "n",
    "threshold: int",
    "scale: float",
    "seed: long",
    "x: real (n)",
    "onto: real? (n)",
    "out: real (n) out",
    "half x",
    "relu: int",
    "threads: threads",
)
_PASSED = Function(
    "regard_passed",
    "n",
    "scale: float",
    "grad: real (n)",
    "out: real (n)",
    "into: real (n) out",
    "half out",
    "threads: threads",
)
FEW = 1 << 14
"""Numbers below which a call of C costs more than it saves."""
BITS = 1 << 16


def dropout(x: Float[Tensor, "..."], p: float, training: bool = True) -> Float[Tensor, "..."]:
    r"""Srivastava et al. (2014): zero each element with probability p, scale the rest by 1/(1-p).

    PyTorch's CPU generator draws one Bernoulli number per element (`bernoulli_`), which takes 7 to
    16 % of a training step. Here, on the CPU, C hashes a seed and the index of the element in one
    pass, and again in the backward pass, so no mask is stored. It uses sixteen bits, so p is
    rounded to a multiple of 2^-16. The seed comes from PyTorch's generator, so `manual_seed` makes
    results reproducible, with any number of threads.

    Shapes:
        x of any shape to the same
    """
    if not training or p == 0.0:
        return x
    threshold = round(p * BITS)
    if x.device.type != "cpu" or not 0 < threshold < BITS or x.numel() < 1024 or followed(x):
        return F.dropout(x, p, training)
    if _in_c(x):
        dropped: Tensor = _dropout(x, None, _seed(), threshold)
        return dropped
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64)
    words.random_(-(2**63), None)
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)  # uniform over -32768 ... 32767
    keep = (bits >= threshold - BITS // 2).to(x.dtype).mul_(_scale(threshold))
    return x * keep


def dropout_add(
    x: Float[Tensor, "*shape"], onto: Float[Tensor, "*shape"], p: float, training: bool = True
) -> Float[Tensor, "*shape"]:
    """A residual connection: add x after dropout to another tensor, in one pass."""
    threshold = round(p * BITS)
    if not training or not 0 < threshold < BITS or not _in_c(x) or x.dtype != onto.dtype:
        return onto + dropout(x, p, training)
    added: Tensor = _dropout(x, onto.expand_as(x), _seed(), threshold)
    return added


def dropout_relu(x: Float[Tensor, "..."], p: float, training: bool = True) -> Float[Tensor, "..."]:
    """max(0, x) with dropout, in one pass; its backward pass only needs the output.

    Shapes:
        x of any shape to the same
    """
    threshold = round(p * BITS)
    if not training or not 0 < threshold < BITS or not _in_c(x):
        return dropout(torch.relu(x), p, training)
    dropped: Tensor = _dropout_relu(x, _seed(), threshold)
    return dropped


def _in_c(x: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.numel() >= FEW
        and followed(x) is None
        and x.dtype in (torch.float32, torch.bfloat16)
        and native.unavailable_reason("regard_dropout") is None
    )


def drawn(p: float) -> tuple[Tensor, int]:
    """A seed from PyTorch's generator, and the dropout threshold of 65,536; None for p = 0."""
    threshold = round(p * BITS)
    return _seed() if threshold else torch.zeros(1, dtype=torch.int64), threshold


def _seed() -> Tensor:
    return torch.randint(1 << 62, (1,))


def _scale(threshold: int) -> float:
    return 1.0 / (1.0 - threshold / BITS)


def _drop(x: Tensor, onto: Tensor | None, seed: Tensor, threshold: int, relu: bool) -> Tensor:
    out = torch.empty(x.shape, dtype=x.dtype)
    x = x.contiguous()
    onto = None if onto is None else onto.contiguous()
    threads = native.threads(x.numel())
    _DROPOUT(threshold, _scale(threshold), int(seed), x, onto, out, relu, threads)
    return out


@custom_op("regard::dropout", mutates_args=(), device_types="cpu")
def _dropout(x: Tensor, onto: Tensor | None, seed: Tensor, threshold: int) -> Tensor:
    return _drop(x, onto, seed, threshold, False)


@_dropout.register_fake
def _(x: Tensor, onto: Tensor | None, seed: Tensor, threshold: int) -> Tensor:
    return x.new_empty(x.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, onto, seed, ctx.threshold = inputs
    ctx.added = onto is not None
    ctx.save_for_backward(seed)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (seed,) = ctx.saved_tensors
    return _dropout(grad, None, seed, ctx.threshold), grad if ctx.added else None, None, None


_dropout.register_autograd(_gradients, setup_context=_save)


@custom_op("regard::dropout_relu", mutates_args=(), device_types="cpu")
def _dropout_relu(x: Tensor, seed: Tensor, threshold: int) -> Tensor:
    return _drop(x, None, seed, threshold, True)


@_dropout_relu.register_fake
def _(x: Tensor, seed: Tensor, threshold: int) -> Tensor:
    return x.new_empty(x.shape)


@custom_op("regard::passed", mutates_args=(), device_types="cpu")
def _passed(grad: Tensor, out: Tensor, threshold: int) -> Tensor:
    into = torch.empty(out.shape, dtype=out.dtype)
    grad, out = grad.contiguous(), out.contiguous()
    _PASSED(_scale(threshold), grad, out, into, native.threads(out.numel()))
    return into


@_passed.register_fake
def _(grad: Tensor, out: Tensor, threshold: int) -> Tensor:
    return out.new_empty(out.shape)


def _save_out(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.threshold = inputs[2]
    ctx.save_for_backward(output)


def _passed_on(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    (out,) = ctx.saved_tensors
    if double_backward_wanted():  # PyTorch's own operators, which can be differentiated again
        return grad * ((out > 0) * _scale(ctx.threshold)).to(grad.dtype), None, None
    return _passed(grad, out, ctx.threshold), None, None


_dropout_relu.register_autograd(_passed_on, setup_context=_save_out)
