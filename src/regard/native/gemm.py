"""Matrix products in float32 for processors where PyTorch's library is slow.

PyTorch's MKL uses its AVX2 code on AMD processors. On those with 512-bit vectors our product is
1.05 to 1.25 times as fast at the sizes of a training step (`benchmarks/gemm.py`).
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from regard import native
from regard.native.gate import Function
from regard.native.operation import is_recorded
from regard.native.transforms import followed

__all__ = ["add_product", "is_faster", "linear", "product", "unhooked"]

_GEMM = Function(
    "regard_gemm",
    "m",
    "n",
    "k",
    "a: f32 [m k] any",
    "stride a 0",
    "stride a 1",
    "b: f32 [k n] any",
    "stride b 0",
    "stride b 1",
    "bias: f32? [n]",
    "out: f32 [m n] last out",
    "stride out 0",
    "add: int",
    "threads: threads",
)
_PLAIN = (Tensor, nn.Parameter)
ROWS = 64
"""The smallest number of rows and columns where packing the second factor pays off."""


@cache
def _machine_is_faster() -> bool:
    """Whether this machine is such a processor."""
    found = native.library()
    if found is None or native.unavailable_reason("regard_gemm") is not None:
        return False
    return bool(found.regard_multiplies())


def is_faster(*tensors: Tensor) -> bool:
    """Whether our product is faster than PyTorch's: for large float32 matrices."""
    return (
        not torch.compiler.is_compiling()
        and all(
            type(x) in _PLAIN
            and x.dtype == torch.float32
            and x.is_cpu
            and x.dim() == 2
            and min(x.shape) >= ROWS
            for x in tensors
        )
        and _machine_is_faster()
        and not torch.is_autocast_enabled("cpu")
        and followed() is None
    )


def product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    r""":math:`C = A B\,(+\,b)`, for matrices where `is_faster`.

    Shapes:
        a (M, K), b (K, N), bias (N,), of any strides, to (M, N)
    """
    out = a.new_empty(a.shape[0], b.shape[1])
    _multiply(a, b, bias, out, False)
    return out


def add_product(onto: Tensor, a: Tensor, b: Tensor) -> None:
    r""":math:`C \leftarrow C + A B`, in place.

    Shapes:
        onto (M, N), its rows contiguous; a (M, K), b (K, N)
    """
    _multiply(a, b, None, onto, True)


def _multiply(a: Tensor, b: Tensor, bias: Tensor | None, out: Tensor, add: bool) -> None:
    bias = None if bias is None else bias.contiguous()
    work = a.numel() * b.shape[1]
    _GEMM(a, b, bias, out, add, native.threads(work // 16))


def unhooked(layer: nn.Module) -> bool:
    """Whether a layer has no hooks."""
    return not (
        layer._forward_hooks
        or layer._forward_pre_hooks
        or layer._backward_hooks
        or layer._backward_pre_hooks
    )


def linear(layer: nn.Module, x: Tensor) -> Tensor:
    r"""`layer(x)`, for a plain `nn.Linear` with the faster product: :math:`y = x W^\top + b`.

    Layers with hooks, of other classes or dtypes, and small ones are called normally.

    Shapes:
        x (*batch, in) to (*batch, out)
    """
    if (
        type(layer) is nn.Linear
        and not is_recorded()
        and type(x) in _PLAIN  # first: with dynamic shapes there is no number to compare
        and x.numel() >= ROWS * layer.in_features
        and x.dtype == torch.float32
        and is_faster(layer.weight)
        and unhooked(layer)
    ):
        rows = x.reshape(-1, layer.in_features)
        found: Tensor = _Linear.apply(rows, layer.weight, layer.bias)  # type: ignore[no-untyped-call]
        return found.view(*x.shape[:-1], layer.out_features)
    called: Tensor = layer(x)
    return called


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.biased = bias is not None
        return product(x, weight.t(), bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad = grads[0]
        # With `create_graph` this must be differentiable: use PyTorch's products.
        times = torch.matmul if torch.is_grad_enabled() else _times
        wanted = ctx.needs_input_grad
        return (
            times(grad, weight) if wanted[0] else None,
            times(grad.t(), x) if wanted[1] else None,
            grad.sum(0) if ctx.biased and wanted[2] else None,
        )


def _times(a: Tensor, b: Tensor) -> Tensor:
    return product(a, b) if is_faster(a, b) else a @ b
