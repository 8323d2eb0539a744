"""Dropout that draws sixteen bits a number, and on the CPU nothing but a seed."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention._kernels import native

__all__ = ["FEW", "dropout", "dropout_add"]

_CALL = ("regard_dropout", "liflpppit")
FEW = 1 << 14
"""Numbers below which a call of C costs more than it saves."""
BITS = 1 << 16


def dropout(x: Float[Tensor, "..."], p: float, training: bool = True) -> Float[Tensor, "..."]:
    r"""Srivastava et al. (2014): zero each element with probability p, scale the rest by 1/(1-p).

    PyTorch's CPU generator draws one Bernoulli number an element (`bernoulli_`), which is 7 to 16 %
    of a training step. Here, on the CPU, C hashes a seed and the element's place, in one pass, and
    does the same again in the backward pass: no mask is stored. Sixteen bits decide, so p is
    rounded to a multiple of 2^-16. The seed comes from PyTorch's own generator: `manual_seed`
    reproduces all of it, with any number of threads.

    Shapes:
        x of any shape to the same
    """
    if not training or p == 0.0:
        return x
    threshold = round(p * BITS)
    if x.device.type != "cpu" or not 0 < threshold < BITS or x.numel() < 1024:
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
    """Add what dropout leaves of x onto another tensor: a residual connection, in one pass."""
    threshold = round(p * BITS)
    if not training or not 0 < threshold < BITS or not _in_c(x) or x.dtype != onto.dtype:
        return onto + dropout(x, p, training)
    added: Tensor = _dropout(x, onto.expand_as(x), _seed(), threshold)
    return added


def _in_c(x: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.numel() >= FEW
        and x.dtype in (torch.float32, torch.bfloat16)
        and native.lacks(*_CALL) is None
    )


def _seed() -> Tensor:
    return torch.randint(1 << 62, (1,))


def _scale(threshold: int) -> float:
    return 1.0 / (1.0 - threshold / BITS)


@torch.library.custom_op("regard::dropout", mutates_args=(), device_types="cpu")
def _dropout(x: Tensor, onto: Tensor | None, seed: Tensor, threshold: int) -> Tensor:
    out = torch.empty(x.shape, dtype=x.dtype)
    x = x.contiguous()
    onto = None if onto is None else onto.contiguous()
    work = native.function(*_CALL)
    assert work is not None
    work(
        x.numel(), threshold, _scale(threshold), int(seed), x.data_ptr(),
        0 if onto is None else onto.data_ptr(), out.data_ptr(), x.dtype == torch.bfloat16,
        native.threads(x.numel()),
    )  # fmt: skip
    return out


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
