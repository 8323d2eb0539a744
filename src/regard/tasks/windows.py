"""Long texts, read in windows that overlap by half."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.protocols import Inputs, Output, lengths_of, unpacked

__all__ = ["InWindows", "TagsInWindows", "spans", "windows"]

AT_ONCE = 4096
"""The most words of windows that are read together, but for one window that has more."""


def spans(lengths: Int[Tensor, " texts"], window: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of the windows of all texts: which text each is of, where it begins, how many words it has.

    Example:
        >>> [one.tolist() for one in spans(torch.tensor([5, 1]), 4)]
        [[0, 0, 1], [0, 1, 0], [4, 4, 1]]
    """
    stride = math.ceil(window / 2)
    counts = (lengths - window).clamp(min=0).add(stride - 1).div(stride, rounding_mode="floor") + 1
    numbers = torch.arange(len(lengths), device=lengths.device)
    owners = torch.repeat_interleave(numbers, counts)
    turn = torch.arange(len(owners), device=lengths.device) - (counts.cumsum(0) - counts)[owners]
    own = lengths[owners]
    starts = torch.minimum(turn * stride, (own - window).clamp(min=0))
    return owners, starts, own.clamp(max=window)


def windows(source: Inputs, window: int) -> tuple[Inputs, Int[Tensor, " n"]]:
    """(the windows of all texts of a batch, of each which text it is of).

    A text of at most `window` words is one window. Of a longer one a window begins every
    `window / 2` words (rounded up), and the last one ends where the text ends.

    Args:
        source: ids (B, T); extras with a value for each word are cut alike.

    Example:
        >>> cut, owners = windows(Inputs(torch.tensor([[4, 5, 6, 7, 8], [9, 0, 0, 0, 0]])), 4)
        >>> cut.values.tolist(), cut.lengths.tolist(), owners.tolist()
        ([[4, 5, 6, 7], [5, 6, 7, 8], [9, 0, 0, 0]], [4, 4, 1], [0, 0, 1])
    """
    ids, lengths = unpacked(source)
    assert lengths is not None
    owners, starts, sizes = spans(lengths, window)
    reach = torch.arange(min(window, ids.shape[1]), device=ids.device)
    places = starts[:, None] + reach  # no place is outside: a window never ends behind the text
    there = reach < sizes[:, None]

    def cut(values: Tensor) -> Tensor:
        if values.shape[:2] != ids.shape:
            return values[owners]
        found = values[owners[:, None], places]
        return found * there.reshape(*there.shape, *[1] * (found.dim() - 2))

    extras = {name: cut(values) for name, values in source.extras.items()}
    return Inputs(cut(ids), sizes, extras), owners


class InWindows(nn.Module):
    r"""A `Classifier` of texts of any length: the mean of the probabilities of the windows.

    .. math:: z = f^{-1}\Big(\frac{1}{n} \sum_i f(z_i)\Big)

    with f the softmax or, of several labels, the sigmoid. Memory is bounded: some windows are read
    at a time, and for a gradient they are read again in the backward pass.

    Args:
        model: reads windows.
        window: words of each.
        probabilities: f, as (B, num_classes) to the same.
        logits: its inverse.
    """

    normalized = False

    def __init__(
        self,
        model: nn.Module,
        window: int,
        probabilities: Callable[[Tensor], Tensor],
        logits: Callable[[Tensor], Tensor],
    ) -> None:
        super().__init__()
        self.model, self.window = model, window
        self.probabilities, self.logits = probabilities, logits

    def forward(self, source: Inputs) -> Output:
        """Logits (B, num_classes) of the mean."""
        if source.values.shape[1] <= self.window:
            found: Output = self.model(source)
            return found
        output, owners = self.each(source)
        of = self.probabilities(output.logits.double())
        total = of.new_zeros(len(source), of.shape[1]).index_add_(0, owners, of)
        mean = total / owners.bincount(minlength=len(source))[:, None]
        return Output(self.logits(mean), {})

    def each(self, source: Inputs) -> tuple[Output, Int[Tensor, " n"]]:
        """(what the model gives for each window, of each which text it is of).

        A penalty of the model is the mean over the windows.
        """
        cut, owners = windows(source, self.window)
        outputs: list[Output] = []
        penalty: Any = 0.0
        for rows in _portions(len(owners), max(AT_ONCE // self.window, 1)):
            part = cut.rows(rows)
            # A training that kept what every window's backward needs would have no bound.
            whole = len(rows) == len(owners) or not torch.is_grad_enabled()
            made = self.model(part) if whole else checkpoint(self.model, part, use_reentrant=False)
            outputs.append(made)
            if "penalty" in made.extra:
                penalty = penalty + made.extra["penalty"] * (len(rows) / len(owners))
        logits: Float[Tensor, "n classes"] = torch.cat([one.logits for one in outputs])
        extra = {"penalty": penalty} if isinstance(penalty, Tensor) else {}
        return Output(logits, extra), owners


def _portions(count: int, size: int) -> Iterator[Tensor]:
    return iter(torch.arange(count).split(size))


class TagsInWindows(nn.Module):
    """A `Tagger` of texts of any length.

    A word's logits are those of the window in which it is farthest from an end; of two alike, the
    first. A chain's weights are the model's, so the best path goes through the whole text.

    Args:
        model: reads windows.
        window: words of each.
    """

    normalized = False

    def __init__(self, model: Any, window: int) -> None:
        super().__init__()
        self.model, self.window = model, window
        self.normalized = bool(model.normalized)

    def forward(self, source: Inputs, lengths: Tensor | None = None) -> Output:
        """Logits (B, T, num_tags)."""
        ids = source.values
        if ids.shape[1] <= self.window:
            found: Output = self.model(source)
            return found
        if source.lengths is None:
            source = Inputs(ids, lengths_of(ids, lengths), source.extras)
        cut, owners = windows(source, self.window)
        parts = [
            self.model(cut.rows(rows))
            for rows in torch.arange(len(owners)).split(max(AT_ONCE // self.window, 1))
        ]
        assert source.lengths is not None
        places = _places(source.lengths, self.window, ids.shape[1])
        extra = dict(parts[0].extra)
        if "auxiliary" in extra:
            extra["auxiliary"] = _put_together(
                torch.cat([one.extra["auxiliary"] for one in parts]), places
            )
        return Output(_put_together(torch.cat([one.logits for one in parts]), places), extra)


def _places(lengths: Tensor, window: int, time: int) -> tuple[Tensor, Tensor]:
    """(the window, the place in it) of every word of every text, each (B, T)."""
    owners, starts, sizes = spans(lengths, window)
    word = torch.arange(time, device=owners.device)
    inside = word - starts[:, None]  # (n, T), the place of each word of the text in each window
    room = torch.minimum(inside, sizes[:, None] - 1 - inside)
    # The ends of the text are no ends of a window: nothing is missing there.
    room = torch.where(starts[:, None] == 0, sizes[:, None] - 1 - inside, room)
    last = starts + sizes >= lengths[owners]
    room = torch.where(last[:, None], torch.where(starts[:, None] == 0, time, inside), room)
    room = room.masked_fill((inside < 0) | (inside >= sizes[:, None]), -1)
    best = torch.zeros(len(lengths), time, dtype=torch.long, device=owners.device)
    most = torch.full((len(lengths), time), -2, device=owners.device)
    for n, owner in enumerate(owners.tolist()):
        better = room[n] > most[owner]
        best[owner] = torch.where(better, n, best[owner])
        most[owner] = torch.where(better, room[n], most[owner])
    at = (word - starts[best]).clamp(min=0)
    return best, at.minimum(sizes[best] - 1).clamp(min=0)


def _put_together(
    logits: Float[Tensor, "windows time tags"], places: tuple[Tensor, Tensor]
) -> Float[Tensor, "batch words tags"]:
    return logits[places]
