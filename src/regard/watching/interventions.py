"""Attention made to look elsewhere while a block runs: ours, or another library's."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attention, MultiHead
from regard.errors import RequestError
from regard.watching.foreign import changing

__all__ = ["changed", "edited", "permuted", "uniform", "without_head"]


def changed(
    model: nn.Module, name: str, layer: nn.Module, what: Any
) -> AbstractContextManager[None]:
    """A change of one attention, in the model around it.

    Args:
        what: `uniform`, `permuted`, or the head that is taken away, from 0.
    """
    if _own(layer):
        made: AbstractContextManager[None] = (
            what(layer) if callable(what) else without_head(layer, what)
        )
        return made
    other = _Without(what) if not callable(what) else _FOREIGN[what]()
    return changing(model, other.instead, name)


def _own(layer: nn.Module) -> bool:
    return isinstance(layer, MultiHead | Attention)


@contextmanager
def without_head(layer: nn.Module, head: int) -> Iterator[None]:
    """While the block runs, what one head reads does not leave the layer.

    Args:
        layer: ours, or a module of another library with attention inside (without gradients).
        head: from 0.

    Raises:
        RequestError: there is no such head.
    """
    if not _own(layer):
        with changing(layer, _Without(head).instead):
            yield
        return
    if not isinstance(layer, MultiHead) or not 0 <= head < layer.heads:
        heads = layer.heads if isinstance(layer, MultiHead) else 0
        raise RequestError(f"there is no head {head}, counted from 0, of {heads}")
    weight = layer.out.weight
    width = weight.shape[1] // layer.heads
    part = weight.detach()[:, head * width : (head + 1) * width]
    kept = part.clone()
    part.zero_()
    try:
        yield
    finally:
        part.copy_(kept)


@contextmanager
def uniform(layer: nn.Module) -> Iterator[None]:
    """While the block runs, every place that may be looked at gets the same weight."""
    with _selecting(layer, lambda kept: _Even(kept)):
        yield


@contextmanager
def permuted(layer: nn.Module, seed: int = 0) -> Iterator[None]:
    """While the block runs, each row's weights go to its places in another order.

    As peaked as before, but elsewhere (Jain and Wallace 2019, section 4.2.1).
    """
    with _selecting(layer, lambda kept: _Permuted(kept, seed)):
        yield


@contextmanager
def edited(
    layer: nn.Module, row: int, weights: Sequence[float], head: int | None = None
) -> Iterator[None]:
    """While the block runs, one row looks as it is told.

    Args:
        row: of the first output that is teacher forced in the block, from 0; the rows of a
            decoder's several calls are counted through. `moved` runs just that.
        weights: of every key.
        head: from 0; all where not given.

    Raises:
        RequestError: not a weight for every key.
    """
    with _selecting(layer, lambda kept: _Edited(kept, row, weights, head)):
        yield


@contextmanager
def _selecting(layer: nn.Module, make: Callable[[Any], Any]) -> Iterator[None]:
    if not _own(layer):
        with changing(layer, make(_Given()).instead):
            yield
        return
    inner: Any = layer.attention if isinstance(layer, MultiHead) else layer
    kept = inner.select
    inner.select = make(kept)
    try:
        yield
    finally:
        inner.select = kept


class _Given:
    """The weights of another library's attention, in place of a select."""

    sums = "over keys"


class _Changed:
    """A select in place of another, whose weights it changes."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.sums = inner, inner.sums
        self.window = None  # so that every place is there to be changed

    def __call__(
        self, scores: Tensor, *, mask: Tensor | None = None, **more: Any
    ) -> tuple[Tensor, Tensor | None]:
        weights, _ = self.inner(self.before(scores), mask=mask, **more)
        return self.after(weights, mask), None

    def before(self, scores: Tensor) -> Tensor:
        """What it is given in place of the scores."""
        return scores

    def after(self, weights: Tensor, mask: Tensor | None) -> Tensor:
        """What becomes of its weights."""
        return weights

    def instead(self, weights: Tensor) -> Tensor:
        """The same of another library's attention, of which weights alone are known."""
        return self.after(weights, weights > 0)


class _Even(_Changed):
    def before(self, scores: Tensor) -> Tensor:
        return torch.zeros_like(scores)

    def instead(self, weights: Tensor) -> Tensor:
        there = (weights > 0).to(weights.dtype)
        return there / there.sum(-1, keepdim=True).clamp_min(1)


class _Without(_Changed):
    def __init__(self, head: int) -> None:
        super().__init__(_Given())
        self.head = head

    def instead(self, weights: Tensor) -> Tensor:
        heads = weights.shape[1] if weights.dim() > 3 else 1
        if not 0 <= self.head < heads:
            raise RequestError(f"there is no head {self.head}, counted from 0, of {heads}")
        weights = weights.clone()
        weights.view(len(weights), heads, -1)[:, self.head] = 0
        return weights


class _Permuted(_Changed):
    def __init__(self, inner: Any, seed: int = 0) -> None:
        super().__init__(inner)
        self.draw = torch.Generator().manual_seed(seed)

    def after(self, weights: Tensor, mask: Tensor | None) -> Tensor:
        noise = torch.rand(weights.shape, generator=self.draw).to(weights.device)
        if mask is None:
            return weights.gather(-1, noise.argsort(-1))
        there = mask.expand_as(weights)
        places = (
            (~there).to(torch.uint8).argsort(dim=-1, stable=True)
        )  # those that may be looked at
        others = noise.masked_fill(~there, 2.0).argsort(-1)  # the same ones, in any order
        moved = torch.zeros_like(weights).scatter(-1, places, weights.gather(-1, others))
        return moved.masked_fill(~there, 0.0)


class _Edited(_Changed):
    def __init__(self, inner: Any, row: int, weights: Sequence[float], head: int | None) -> None:
        super().__init__(inner)
        self.row, self.weights, self.head, self.met = row, weights, head, 0

    def after(self, weights: Tensor, mask: Tensor | None) -> Tensor:
        rows, keys = weights.shape[-2:]
        place, self.met = self.row - self.met, self.met + rows
        if not 0 <= place < rows:
            return weights
        if len(self.weights) != keys:
            raise RequestError(
                f"expected a weight for each of {keys} keys, got {len(self.weights)}"
            )
        weights = weights.clone()
        if self.head is not None and not (weights.dim() > 3 and 0 <= self.head < weights.shape[-3]):
            raise RequestError(f"there is no head {self.head} of {tuple(weights.shape)}")
        part = weights if self.head is None else weights[..., self.head, :, :]
        part[..., place, :] = weights.new_tensor(self.weights)
        return weights


_FOREIGN: dict[Any, Callable[[], _Changed]] = {
    uniform: lambda: _Even(_Given()),
    permuted: lambda: _Permuted(_Given()),
}
