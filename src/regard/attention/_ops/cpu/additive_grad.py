"""Additive attention as autograd functions, for eager training."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention._ops import eager
from regard.attention._ops.cpu import additive_calls as calls
from regard.native.derivatives import double_backward, double_backward_wanted

__all__ = ["AttendFunction", "ScoresFunction", "attend_again", "scores_again", "shared", "step"]

KEPT = 1 << 21
"""Weights (8 MiB of them) up to which the backward pass keeps them; beyond, it makes them again."""

WAIT = 8
"""Steps whose shares of a gradient wait for one product."""


def scores_again(query: Tensor, key: Tensor, _: Tensor | None, v: Tensor, heads: int) -> Tensor:
    return eager.additive_scores(query, key, v, heads)


def attend_again(
    query: Tensor,
    key: Tensor,
    _: Tensor | None,
    v: Tensor,
    value: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    scale: float,
    heads: int,
) -> tuple[Tensor, Tensor]:
    return eager.additive_attend(query, key, v, value, mask, lengths, scale, heads)


def _step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weight: Tensor,
    v: Tensor,
    lengths: Tensor | None,
    scale: float,
) -> Tensor:
    return eager.additive_attend(query @ weight.mT, key, v, value, None, lengths, scale, 1)[0]


class ScoresFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, packed: Tensor | None, v: Tensor, heads: int
    ) -> Tensor:
        ctx.save_for_backward(query, key, packed, v)
        ctx.heads = heads
        return calls.scores(query, key, packed, v, heads)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, packed, v = ctx.saved_tensors
        if double_backward_wanted():
            inputs = (query, key, packed, v, ctx.heads)
            return double_backward(scores_again, inputs, grads, ctx.needs_input_grad)
        found = calls.scores_backward(query, key, packed, v, grads[0], ctx.heads)
        return found[0], found[1], None, found[2], None


class PendingProducts:
    """A gradient that is a sum of one product per step; products of several steps are batched."""

    def __init__(self, batched: bool) -> None:
        self.batched = batched
        self.sum: Tensor | None = None
        self.pairs: list[tuple[Tensor, Tensor]] = []

    def add(self, a: Tensor, b: Tensor) -> None:
        """Add the product of one step, a^T b: a (B, 1, M), b (B, 1, N)."""
        self.pairs.append((a, b))
        if len(self.pairs) == WAIT:
            self._multiply()

    def _multiply(self) -> None:
        a, b = (torch.cat(rows, 1) for rows in zip(*self.pairs, strict=True))
        self.pairs = []
        if not self.batched:
            a, b = a.flatten(0, 1), b.flatten(0, 1)
        if self.sum is None:
            self.sum = a.mT @ b
        elif self.batched:
            self.sum.baddbmm_(a.mT, b)
        else:
            self.sum.addmm_(a.mT, b)

    def take(self) -> Tensor | None:
        """The sum: (B, M, N), or summed over the batch (M, N)."""
        if self.pairs:
            self._multiply()
        return self.sum


class GradientSums:
    """Gradients of the tensors that all steps share, accumulated once per sequence.

    Those of the keys and of v are accumulated in place. Those of the values are outer products of
    a step's weights and the gradient of its context; those of the query's projection, of its
    gradient and the query. `task` identifies the backward pass, so that sums left over by another
    pass, which did not reach the keys, are dropped.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Reset all sums."""
        self.task = -1
        self.key: Tensor | None = None
        self.v: Tensor | None = None
        self.value, self.weight = PendingProducts(batched=True), PendingProducts(batched=False)

    def open(self, key: Tensor) -> tuple[Tensor, bool]:
        """The buffer for the gradient of the keys, and whether it already has a sum."""
        task = torch._C._current_graph_task_id()
        if self.task == task and self.key is not None:
            return self.key, True
        self.forget()
        self.task, self.key = task, key.new_empty(key.shape)
        return self.key, False

    def take(self) -> tuple[Tensor | None, ...]:
        """The sums of this pass for keys, values, projection and v; then reset."""
        found: tuple[Tensor | None, ...] = (None, None, None, None)
        if self.task == torch._C._current_graph_task_id():
            found = self.key, self.value.take(), self.weight.take(), self.v
        self.forget()
        return found


class _Collect(torch.autograd.Function):
    """The identity for shared tensors; its backward returns the sums over all steps."""

    @staticmethod
    def forward(ctx: Any, sums: GradientSums, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.sums, ctx.shapes = sums, [x.shape for x in tensors]
        ctx.set_materialize_grads(False)
        return tuple(x.view_as(x) for x in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        found = []
        for grad, more, shape in zip(grads, ctx.sums.take(), ctx.shapes, strict=False):
            if more is not None:
                grad = more.view(shape) if grad is None else grad + more.view(shape)
            found.append(grad)
        return None, *found


class SharedNode(NamedTuple):
    """Tensors shared by many steps through one autograd node: the sources and its outputs."""

    sources: tuple[Tensor, ...]
    tensors: tuple[Tensor, ...]
    sums: GradientSums


def shared(packed: Tensor, *tensors: Tensor) -> SharedNode:
    """The autograd node of a memory, made at its first step and stored with its packed keys.

    The T steps of a decoder then accumulate the keys' gradients in one buffer, instead of returning
    T gradients for autograd to add.

    Args:
        tensors: keys and values; for `step` also the query's projection and v.
    """
    name = "_regard_shared" if len(tensors) == 2 else "_regard_steps"
    found: SharedNode | None = getattr(packed, name, None)
    if found is None or any(a is not b for a, b in zip(found.sources, tensors, strict=True)):
        sums = GradientSums()
        made = _Collect.apply(sums, *tensors)  # type: ignore[no-untyped-call]
        found = SharedNode(tensors, made, sums)
        setattr(packed, name, found)
    return found


def step(
    query: Tensor,
    weight: Tensor,
    v: Tensor,
    key: Tensor,
    packed: Tensor,
    value: Tensor,
    lengths: Tensor | None,
    scale: float,
) -> Tensor:
    """One training step over a memory, including the projection, as one autograd node.

    Shapes:
        query (B, 1, Dq), weight (D, Dq), v (D,), key (B, K, D), value (B, K, Dv), all contiguous
        and in float32, to (B, 1, Dv)
    """
    _, tensors, sums = shared(packed, key, value, weight, v)
    found: Tensor = _Step.apply(query, *tensors, packed, lengths, scale, sums)  # type: ignore[no-untyped-call]
    return found


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        query, key, value, weight, v, packed, lengths, scale, sums = inputs
        projected = (query[:, 0] @ weight.t())[:, None]
        context, weights, _ = calls.attend(
            projected, key, packed, v, value, None, lengths, scale, 1, True, False
        )
        ctx.save_for_backward(query, projected, key, value, weight, v, packed, lengths, weights)
        ctx.rest = scale, sums
        return context

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, projected, key, value, weight, v, packed, lengths, weights = ctx.saved_tensors
        (grad,), (scale, sums) = grads, ctx.rest
        if double_backward_wanted():
            rest = (lengths, scale)
            return double_backward(
                _step, (query, key, value, weight, v, *rest), grads, ctx.needs_input_grad
            )
        into = sums.open(key)
        if sums.v is None:
            sums.v = v.new_zeros(v.shape)
        sums.value.add(weights, grad)
        (back, *_) = calls.attend_backward(
            projected,
            key,
            packed,
            v,
            value,
            None,
            lengths,
            scale,
            1,
            weights,
            None,
            grad,
            None,
            into,
            sums.v,
        )
        if ctx.needs_input_grad[3]:
            sums.weight.add(back, query)
        reached = (back[:, 0] @ weight)[:, None] if ctx.needs_input_grad[0] else None
        return (reached, *[None] * 8)


class AttendFunction(torch.autograd.Function):
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
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, packed, v, value, mask, lengths, weights, lse = ctx.saved_tensors
        grad, (scale, heads) = grads[0], ctx.rest
        if double_backward_wanted():
            inputs = (query, key, packed, v, value, mask, lengths, scale, heads)
            return double_backward(attend_again, inputs, grads, ctx.needs_input_grad)
        if grad is None:
            grad = query.new_zeros(*query.shape[:2], value.shape[2])
        into = None
        if ctx.sums is not None:
            into = ctx.sums.open(key)
            ctx.sums.value.add(weights, grad)
        made = calls.attend_backward(
            query,
            key,
            packed,
            v,
            value,
            mask,
            lengths,
            scale,
            heads,
            weights,
            lse,
            grad,
            grads[1],
            into,
        )
        if into is not None:
            return made[0], None, None, made[2], None, None, None, None, None, None, None
        return made[0], made[1], None, made[2], made[3], None, None, None, None, None, None
