r"""Only well-formed trees: a rule for what a hypothesis of brackets may go on with.

With `depth` the brackets that are open, `left` the words without a tag, and `room` the tokens that
the limit leaves, EOS among them, a next token is possible when

    (X    left > 0, fewer than `run` brackets were just opened in a row, depth < deepest,
          and room > depth + left + 2        (it and its `)X`, the rest, EOS)
    tag   left > 0; one with a number (XX0, XX1, …) only at its place, modulo how many there are
    )X    X is what is open, and not empty
    EOS   depth = 0 and left = 0

so that every hypothesis is a prefix of some tree of its sentence that the limit has room for, and
each ends in EOS as such a tree. What is possible is known from the tokens read alone.
"""

import math
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.protocols import EOS, UNK

__all__ = ["Trees"]

OPEN, CLOSE, TAG, OTHER = 1, -1, 0, 2
_NUMBER = re.compile(r"[A-Z]+(\d+)")


class Trees:
    """A `Rule`: every sentence is written as a tree of its words (`linearized_trees.linearized`).

    Args:
        vocabulary: the symbol of each id: "(X" opens, ")X" closes an X, ")" whatever is open; all
            others but the special ones are tags, one a word.
        words: how many each sentence has.
        limits: the most tokens of each sentence's output, EOS counted. Below words + 1 no tree
            fits; then tags are written until the limit.
        run: the most brackets opened in a row.
        deepest: the most brackets open at once.
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        words: Sequence[int],
        limits: Sequence[int],
        run: int = 12,
        deepest: int = 100,
    ) -> None:
        self.words, self.limits = torch.tensor(words), torch.tensor(limits)
        self.run, self.deepest = run, deepest
        kinds = [_kind(i, symbol) for i, symbol in enumerate(vocabulary)]
        numbers: dict[str, int] = {}
        self.kind = torch.tensor(kinds)
        self.opens = self.kind == OPEN
        # tags[i]: those of a word at place i modulo the numbers that there are.
        number = torch.tensor([_number(symbol) for symbol in vocabulary])
        places = torch.arange(max(int(number.max()) + 1, 1))[:, None]
        self.tags = (self.kind == TAG) & ((number < 0) | (number == places))
        self.label = torch.tensor(
            [
                numbers.setdefault(symbol[1:], len(numbers)) if kind in (OPEN, CLOSE) else -1
                for kind, symbol in zip(kinds, vocabulary, strict=True)
            ]
        )
        # closes[i]: what closes a bracket of label i; the last row is for where none is open.
        whatever = self.label == numbers.get("", -2)
        fits = [(self.label == label) | whatever for label in numbers.values()]
        self.closes = torch.stack([*fits, torch.zeros_like(whatever)]) & (self.kind == CLOSE)

    def __call__(self, scores: Tensor, read: Tensor, rows: Tensor) -> Tensor:
        """Scores (n, width, V) with -inf where no tree begins so; read (n, width, t)."""
        device = rows.device
        if self.kind.device != device:
            for name, value in vars(self).items():
                if isinstance(value, Tensor):
                    setattr(self, name, value.to(device))
        kind = self.kind[read]
        written = (kind == TAG).sum(-1)  # (n, width)
        left = self.words[rows][:, None] - written
        room = self.limits[rows][:, None] - read.shape[-1]
        level = torch.where(kind == OTHER, 0, kind).cumsum(-1)
        if read.shape[-1]:
            depth, places = level[..., -1], torch.arange(read.shape[-1], device=device)
            # The last bracket that led to this depth is the one still open.
            led = (kind == OPEN) & (level == depth[..., None])
            place = torch.where(led, places, -1).amax(-1)
            label = self.label[read.gather(-1, place.clamp(min=0)[..., None])[..., 0]]
            label = torch.where((place >= 0) & (depth > 0), label, -1)
            last = torch.where(kind != OPEN, places, -1).amax(-1)  # that opened nothing
            opened = read.shape[-1] - 1 - last
        else:
            depth, opened = torch.zeros_like(left), torch.zeros_like(left)
            label = torch.full_like(left, -1)
        more = left > 0
        deeper = more & (opened < self.run) & (depth < self.deepest) & (room > depth + left + 2)
        closable = torch.where(opened == 0, label, -1)
        free = (deeper[..., None] & self.opens) | (
            more[..., None] & self.tags[written % len(self.tags)]
        )
        free |= self.closes[closable]
        free[..., EOS] = ~more & (depth <= 0)
        return scores.masked_fill(~free, -math.inf)


def _number(symbol: str) -> int:
    found = _NUMBER.fullmatch(symbol)
    return int(found[1]) if found else -1


def _kind(number: int, symbol: str) -> int:
    if number <= UNK:
        return OTHER
    return {"(": OPEN, ")": CLOSE}.get(symbol[:1], TAG)
