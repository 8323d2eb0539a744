"""Additive attention as autograd functions, for eager training."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention._kernels.native import additive_calls as calls
from regard.attention._kernels.once import once

__all__ = ["Attend", "Scores", "shared"]

KEPT = 1 << 21
"""Weights (8 MiB of them) up to which the backward pass keeps them; beyond, it makes them again."""

WAIT = 64
"""Steps whose shares of the values' gradient wait for one product."""


class Scores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, heads: int
    ) -> Tensor:
        ctx.save_for_backward(query, key, packed, v)
        ctx.heads = heads
        return calls.scores(query, key, packed, v, heads)

    @staticmethod
    @once
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, packed, v = ctx.saved_tensors
        found = calls.scores_backward(query, key, packed, v, grads[0], ctx.heads)
        return found[0], found[1], None, found[2], None


class Sums:
    """Gradients of keys and values, added up by the steps of one backward pass.

    Those of the keys in place. Those of the values are outer products of a step's weights and its
    context's gradient: they wait, and become one matrix product for many steps.
    `task` is the pass: what another one left behind (it did not reach the keys) is not its own.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self.task = -1
        self.key: Tensor | None = None
        self.value: Tensor | None = None
        self.waiting: list[tuple[Tensor, Tensor]] = []

    def open(self, key: Tensor) -> tuple[Tensor, bool]:
        """Where to add the gradient of the keys, and whether something is there already."""
        task = torch._C._current_graph_task_id()
        if self.task == task and self.key is not None:
            return self.key, True
        self.forget()
        self.task, self.key = task, key.new_empty(key.shape)
        return self.key, False

    def add(self, weights: Tensor, grad: Tensor) -> None:
        """One step's share of the values: weights (B, 1, K), gradient of the context (B, 1, Dv)."""
        self.waiting.append((weights, grad))
        if len(self.waiting) == WAIT:
            self._multiply()

    def _multiply(self) -> None:
        if self.waiting:
            weights, grads = (torch.cat(rows, 1) for rows in zip(*self.waiting, strict=True))
            more = weights.mT @ grads
            self.value = more if self.value is None else self.value.add_(more)
            self.waiting = []

    def take(self) -> tuple[Tensor | None, Tensor | None]:
        """What this pass added up; afterwards there is nothing."""
        found: tuple[Tensor | None, Tensor | None] = (None, None)
        if self.task == torch._C._current_graph_task_id():
            self._multiply()
            found = self.key, self.value
        self.forget()
        return found


class _Collect(torch.autograd.Function):
    """Keys and values as they are; behind all steps of a backward pass it hands out their sums."""

    @staticmethod
    def forward(ctx: Any, sums: Sums, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        ctx.sums, ctx.shapes = sums, (key.shape, value.shape)
        ctx.set_materialize_grads(False)
        return key.view_as(key), value.view_as(value)

    @staticmethod
    @once
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        found = []
        for grad, more, shape in zip(grads, ctx.sums.take(), ctx.shapes, strict=True):
            if more is not None:
                grad = more.view(shape) if grad is None else grad + more.view(shape)
            found.append(grad)
        return None, *found


class Shared(NamedTuple):
    """Keys and values of many steps behind one node of the graph."""

    source_key: Tensor
    source_value: Tensor
    key: Tensor
    value: Tensor
    sums: Sums


def shared(packed: Tensor, key: Tensor, value: Tensor) -> Shared:
    """The node of a memory, made at its first step and kept with its packed keys.

    A decoder's T steps then write the keys' gradients into one buffer, instead of handing T of
    them to autograd, which adds them up.
    """
    found: Shared | None = getattr(packed, "_regard_shared", None)
    if found is None or found.source_key is not key or found.source_value is not value:
        sums = Sums()
        one, two = _Collect.apply(sums, key, value)  # type: ignore[no-untyped-call]
        found = Shared(key, value, one, two, sums)
        packed._regard_shared = found  # type: ignore[attr-defined]
    return found


class Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor | None]:
        query, key, packed, v, value, mask, lengths, scale, heads, need_weights, sums = inputs
        few = query.shape[0] * query.shape[1] * key.shape[1] <= KEPT
        keep = need_weights or few or sums is not None
        context, weights, lse = calls.attend(
            query, key, packed, v, value, mask, lengths, scale, heads, keep, not keep
        )
        ctx.save_for_backward(query, key, packed, v, value, mask, lengths, weights, lse)
        ctx.rest = scale, heads
        ctx.sums = sums
        ctx.set_materialize_grads(False)
        return context, weights if need_weights else None

    @staticmethod
    @once
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, packed, v, value, mask, lengths, weights, lse = ctx.saved_tensors
        grad, (scale, heads) = grads[0], ctx.rest
        if grad is None:
            grad = query.new_zeros(*query.shape[:2], value.shape[2])
        into = None
        if ctx.sums is not None:
            into = ctx.sums.open(key)
            ctx.sums.add(weights, grad)
        made = calls.attend_backward(
            query, key, packed, v, value, mask, lengths, scale, heads, weights, lse, grad,
            grads[1], into,
        )  # fmt: skip
        if into is not None:
            return made[0], None, None, made[2], None, None, None, None, None, None, None
        return made[0], made[1], None, made[2], made[3], None, None, None, None, None, None
