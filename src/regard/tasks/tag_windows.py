"""Long texts, tagged in windows that overlap by half: each word by the window around it."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.protocols import Inputs, Output, lengths_of
from regard.tasks.windows import AT_ONCE, spans, windows

__all__ = ["TagsInWindows"]


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
