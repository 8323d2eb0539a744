"""The layout of a batch: padded or without padding.

`BatchLayout` is for layers that work on each position by itself, `PackedLayout` for recurrences.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from regard.attention import Lengths, Ragged

__all__ = ["BatchLayout", "PackedLayout"]


class BatchLayout:
    """Whether a batch (B, T) is computed with its padding or without, and the conversions.

    Most of a Transformer's training step (projections, feed-forward layers, norms, dropout) treats
    each position by itself. Without padding there is less to compute: a fifth less where sentences
    of similar length are batched together.

        layout = BatchLayout(lengths, T, ragged=True)
        x = layout.unpad(x)                # (B, T, D) to (N, D)
        x = feedforward(x)
        x = attention(layout(x), layout(x), mask=layout.mask).context
        x = layout.pad(x)                  # (N, D) to (B, T, D), zeros at padding

    With `ragged=False` all of these return their input, and `mask` hides the padding.

    Args:
        lengths: the number of positions of each sequence.
        size: T.
        ragged: compute without padding.

    Shapes:
        lengths (B,)
    """

    def __init__(self, lengths: Int[Tensor, " batch"], size: int, ragged: bool = False) -> None:
        self.lengths, self.size, self.ragged = lengths, size, ragged
        self._mask: Lengths | None = None
        self._known = False
        if ragged:
            inside = torch.arange(size) < lengths[:, None]
            self._index = inside.flatten().nonzero()[:, 0]
            self._offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))

    @property
    def mask(self) -> Lengths | None:
        """A mask of the padding; None where there is no padding."""
        if torch.compiler.is_compiling():  # a graph is for any lengths
            return None if self.ragged else Lengths(self.lengths)
        if not self._known:
            whole = self.ragged or bool((self.lengths == self.size).all())
            self._mask, self._known = None if whole else Lengths(self.lengths), True
        return self._mask

    def unpad(self, x: Float[Tensor, "batch t dim"]) -> Tensor:
        """The real positions: (B, T, D) to (N, D)."""
        if not self.ragged:
            return x
        taken: Tensor = _Take.apply(x.flatten(0, 1), self._index)  # type: ignore[no-untyped-call]
        return taken

    def pad(self, x: Float[Tensor, "*rows dim"]) -> Tensor:
        """Put the padding back: (N, D) to (B, T, D)."""
        if not self.ragged:
            return x
        rows = len(self.lengths) * self.size
        put: Tensor = _Put.apply(x, self._index, rows)  # type: ignore[no-untyped-call]
        return put.view(-1, self.size, x.shape[-1])

    def __call__(self, x: Float[Tensor, "*rows dim"]) -> Any:
        """The input of an attention layer: `Ragged` or the padded batch."""
        return Ragged(x, self._offsets) if self.ragged else x


class PackedLayout:
    """Sequences without padding, step by step: the first items of all, then the second items.

    Sequences are sorted from the longest to the shortest, so those that have a step t are the first
    `sizes[t]` of them, as in PyTorch's `PackedSequence`. What is not real may stand anywhere in a
    row: it is left out, and the real items before and after it follow each other.

    Args:
        real: which positions of a padded batch (B, T) are real; N of them are.

    Example:
        >>> layout = PackedLayout(torch.tensor([[True, False, False], [True, True, True]]))
        >>> layout.sizes, layout.take(torch.tensor([[7, 0, 0], [1, 2, 3]]))
        ([2, 1, 1], tensor([1, 7, 2, 3]))
    """

    def __init__(self, real: Bool[Tensor, "batch t"]) -> None:
        self.real = real
        lengths, at = real.sum(1), real.device
        longest = int(lengths.max()) if lengths.numel() else 0
        steps = torch.arange(longest, device=at)
        counts = (lengths > steps[:, None]).sum(1)
        self.sizes: list[int] = counts.tolist()
        starts = counts.cumsum(0) - counts
        place = lengths.argsort(descending=True, stable=True).argsort()  # of each row
        flat = real.flatten().nonzero()[:, 0]
        row = flat // max(real.shape[1], 1)
        step = (real.cumsum(1) - 1).flatten()[flat]
        packed = starts[step] + place[row]
        self._index = flat.index_copy(0, packed, flat)
        across = starts[lengths[row] - 1 - step] + place[row]
        self._mirrored = flat.index_copy(0, packed, across)

    def take(self, x: Shaped[Tensor, "batch t *dims"]) -> Shaped[Tensor, " n *dims"]:
        """The real items: (B, T, …) to (N, …)."""
        return _taken(x.flatten(0, 1), self._index)

    def put(self, x: Float[Tensor, "n dim"]) -> Float[Tensor, "batch t dim"]:
        """Back to where they were: (N, D) to (B, T, D), zeros elsewhere."""
        put: Tensor = _Put.apply(x, self._index, self.real.numel())  # type: ignore[no-untyped-call]
        return put.view(*self.real.shape, x.shape[-1])

    def mirror(self, x: Shaped[Tensor, " n *dims"]) -> Shaped[Tensor, " n *dims"]:
        """Each sequence from its last item to its first; twice, the identity."""
        return _taken(x, self._mirrored)


def _taken(x: Tensor, index: Tensor) -> Tensor:
    if x.dim() == 1:
        return x[index]
    taken: Tensor = _Take.apply(x, index)  # type: ignore[no-untyped-call]
    return taken


def _put(x: Tensor, index: Tensor, rows: int) -> Tensor:
    return x.new_zeros(rows, x.shape[-1]).index_copy_(0, index, x)


class _Take(torch.autograd.Function):
    """Rows of an index without duplicates: the gradient is copied, not added."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.rows = x.shape[0]
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        return _Put.apply(grads[0], index, ctx.rows), None  # type: ignore[no-untyped-call]


class _Put(torch.autograd.Function):
    """The inverse of `_Take`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, rows: int) -> Tensor:
        ctx.save_for_backward(index)
        return x.new_zeros(rows, x.shape[-1]).index_copy_(0, index, x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        return _Take.apply(grads[0], index), None, None  # type: ignore[no-untyped-call]
