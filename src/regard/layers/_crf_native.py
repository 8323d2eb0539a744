"""Linear chains in C: sums with their gradients, and best paths, of a batch in one call.

What C finds unsafe (see native/crf.c) comes back as None: the caller then computes it with
PyTorch's own operators.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard import native
from regard.native.derivatives import double_backward, double_backward_wanted
from regard.native.gate import Function
from regard.native.transforms import followed

__all__ = ["best_path", "is_native", "total"]

MOST_TAGS = 1 << 12
"""Beyond it, tables of exponentials are no longer small beside the emissions."""


def _declared(kind: str, suffix: str) -> tuple[Function, Function, Function]:
    """Sum, gradient, best path."""
    chain = (
        f"emissions: {kind} [b t c]",
        f"moves: {kind} [c c]",
        f"start: {kind} [c]",
        f"end: {kind} [c]",
        "lengths: i64 [b]",
    )
    return (
        Function(
            f"regard_chain_forward{suffix}",
            "b",
            "t",
            "c",
            "p: long",
            *chain,
            f"total: {kind} [b] out",
            "safe: bool [b] out",
            f"ahead: {kind}? [b t p] out",
            f"scales: {kind}? [b t] out",
            "threads: threads",
        ),
        Function(
            f"regard_chain_backward{suffix}",
            "b",
            "t",
            "c",
            "p",
            *chain,
            f"ahead: {kind} [b t p]",
            f"scales: {kind} [b t]",
            f"grad: {kind} [b]",
            f"of_emissions: {kind} [b t c] out",
            f"of_moves: {kind} [c c] out",
            f"of_start: {kind} [c] out",
            f"of_end: {kind} [c] out",
            "safe: bool [b] out",
            "threads: threads",
        ),
        Function(
            f"regard_chain_best{suffix}",
            "b",
            "t",
            "c",
            *chain,
            "path: i64 [b t] out",
            f"total: {kind} [b] out",
            "threads: threads",
        ),
    )


_FUNCTIONS = {torch.float32: _declared("f32", ""), torch.float64: _declared("f64", "_double")}

Plain = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def is_native(emissions: Tensor, moves: Tensor) -> bool:
    """Whether C computes chains of these tensors."""
    return (
        not torch.compiler.is_compiling()
        and emissions.is_cpu
        and emissions.dtype in _FUNCTIONS
        and emissions.shape[2] <= MOST_TAGS
        and native.unavailable_reason(_FUNCTIONS[emissions.dtype][0].name) is None
        and followed(emissions, moves) is None
    )


def total(
    emissions: Tensor, moves: Tensor, start: Tensor, end: Tensor, lengths: Tensor, plain: Plain
) -> Tensor | None:
    """Log-sums over all paths (B,), or None where C finds a sentence unsafe.

    Args:
        plain: the same in PyTorch's own operators, for second derivatives.
    """
    given = (emissions, moves, start, end)
    wanted = torch.is_grad_enabled() and any(x.requires_grad for x in given)
    own = [x.detach().contiguous() for x in given]
    places = lengths.contiguous()
    (batch, steps, tags), wide = emissions.shape, _wide(emissions)
    found, safe = own[0].new_empty(batch), torch.empty(batch, dtype=torch.bool)
    ahead = scales = None
    if wanted:
        ahead, scales = own[0].new_empty(batch, steps, wide), own[0].new_empty(batch, steps)
    threads = native.threads(batch * steps * tags * wide // 4)
    _FUNCTIONS[emissions.dtype][0](wide, *own, places, found, safe, ahead, scales, threads)
    if not bool(safe.all()):
        return None
    if not wanted:
        return found
    summed: Tensor = _Total.apply(  # type: ignore[no-untyped-call]
        *given, places, found, ahead, scales, plain
    )
    return summed


def best_path(
    emissions: Tensor, moves: Tensor, start: Tensor, end: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """The best paths (B, T) and their scores (B,)."""
    own = [x.detach().contiguous() for x in (emissions, moves, start, end)]
    batch, steps, tags = emissions.shape
    path, found = lengths.new_empty(batch, steps), own[0].new_empty(batch)
    threads = native.threads(batch * steps * tags * _wide(emissions) // 4)
    _FUNCTIONS[emissions.dtype][2](*own, lengths.contiguous(), path, found, threads)
    return path, found


def _wide(emissions: Tensor) -> int:
    """The size of a padded row of tags."""
    return -(-emissions.shape[2] // 16) * 16


class _Total(torch.autograd.Function):
    """The log-sums, whose gradients are the marginals and expected counts of moves."""

    @staticmethod
    def forward(
        ctx: Any,
        emissions: Tensor,
        moves: Tensor,
        start: Tensor,
        end: Tensor,
        lengths: Tensor,
        found: Tensor,
        ahead: Tensor,
        scales: Tensor,
        plain: Plain,
    ) -> Tensor:
        ctx.save_for_backward(emissions, moves, start, end, lengths, ahead, scales)
        ctx.plain = plain
        return found.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, ahead, scales = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:4]
        nothing = (None,) * 5
        if double_backward_wanted():
            return (*double_backward(ctx.plain, inputs, (grad,), wanted), *nothing)
        own = [x.detach().contiguous() for x in inputs[:4]]
        outs = [torch.empty_like(x) for x in own]
        safe = torch.empty(len(grad), dtype=torch.bool)
        threads = native.threads(own[0].numel() * ahead.shape[2])
        _FUNCTIONS[own[0].dtype][1](
            *own, inputs[4], ahead, scales, grad.contiguous(), *outs, safe, threads
        )
        if bool(safe.all()):
            return (*outs, *nothing)
        shares = double_backward(ctx.plain, inputs, (grad,), wanted)
        return (*(None if x is None else x.detach() for x in shares), *nothing)
