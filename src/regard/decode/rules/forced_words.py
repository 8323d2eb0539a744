"""Words that an output must have: a beam shared out by how much of them has been written.

A hypothesis has *met* as many tokens as its sentence's phrases have in it: all of a phrase that was
written, or the longest beginning of one that it ends with. Besides the likeliest continuations, the
first missing token of every phrase is always considered; the beam is cut in one bank for each count
of met tokens, and a bank's places that nobody wants go to the likeliest of the others (Post and
Vilar 2018, "Fast Lexically Constrained Decoding with Dynamic Beam Allocation"). A beam with fewer
places than banks prefers those that have met most, so that it gets there. EOS is impossible before
all is met.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decode.rules.forbidden_words import Phrases
from regard.protocols import EOS

__all__ = ["Must", "met"]

Phrase = Sequence[int]


def met(read: Sequence[int], phrases: Sequence[Phrase]) -> int:
    """How many tokens of `phrases` are in `read`.

    Example:
        >>> met([5, 6, 7], [[6], [7, 8]]), met([5, 6, 7, 8], [[6], [7, 8]])
        (2, 3)
    """
    return sum(_progress(read, phrase) for phrase in phrases)


def _progress(read: Sequence[int], phrase: Phrase) -> int:
    """All of `phrase` if it is in `read`, else how much of its beginning `read` ends with."""
    size, read, phrase = len(phrase), list(read), list(phrase)
    if any(read[at : at + size] == phrase for at in range(len(read) - size + 1)):
        return size
    return max((n for n in range(1, size) if read[-n:] == phrase[:n]), default=0)


class _Candidate(NamedTuple):
    total: float
    token: int
    parent: int
    bank: int


class Must:
    """The phrases of every sentence of a batch, and the beam that meets them.

    Args:
        phrases: for each sentence; the same phrase twice is asked for once.
        size: of the beam.
        limits: the most tokens of each sentence.
    """

    def __init__(self, phrases: Phrases, size: int, limits: Sequence[int]) -> None:
        self.phrases = [[list(p) for p in dict.fromkeys(map(tuple, own))] for own in phrases]
        self.full = [sum(map(len, own)) for own in self.phrases]
        self.size, self.limits = size, limits

    def hold(self, scores: Tensor, read: Tensor, rows: Tensor) -> Tensor:
        """EOS is impossible where something is missing: a rule (see `rules`)."""
        scores = scores.clone()
        for row, sentence in enumerate(rows.tolist()):
            own = self.phrases[sentence]
            for slot, written in enumerate(read[row].tolist() if own else []):
                if met(written, own) < self.full[sentence]:
                    scores[row, slot, EOS] = -math.inf
        return scores

    def share(
        self,
        best: tuple[Tensor, Tensor, Tensor],
        scores: Tensor,
        totals: Tensor,
        read: Tensor,
        rows: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Put the continuations that the banks choose in place of the likeliest ones.

        Shapes:
            best: (totals, tokens, parents), (n, count) each, best first
        """
        sums, tokens, parents = (x.clone() for x in best)
        for row, sentence in enumerate(rows.tolist()):
            if not self.phrases[sentence]:
                continue
            written = read[row].tolist()
            found = zip(
                best[0][row].tolist(), best[1][row].tolist(), best[2][row].tolist(), strict=True
            )
            taken = {(parent, token): total for total, token, parent in found}
            for parent, token in self._wanted(sentence, written, scores[row]):
                gained = float(scores[row, parent, token]) + float(totals[row, parent])
                taken.setdefault((parent, token), gained)
            last = written and len(written[0]) + 1 >= self.limits[sentence]
            chosen = self._chosen(sentence, written, taken, last=bool(last))[: sums.shape[1]]
            chosen += [_Candidate(-math.inf, EOS + 1, 0, 0)] * (sums.shape[1] - len(chosen))
            for x, values in zip((sums, tokens, parents), zip(*chosen, strict=True), strict=False):
                x[row] = torch.tensor(values, dtype=x.dtype)
        return sums, tokens, parents

    def _wanted(
        self, sentence: int, written: list[list[int]], scores: Tensor
    ) -> list[tuple[int, int]]:
        """Continuations to consider whatever their score: what is missing, the best, and EOS."""
        wanted = []
        for slot, read in enumerate(written):
            for phrase in self.phrases[sentence]:
                progress = _progress(read, phrase)
                if progress < len(phrase):
                    wanted += [(slot, phrase[progress]), (slot, phrase[0])]
            wanted += [(slot, EOS), (slot, int(scores[slot, EOS + 1 :].argmax()) + EOS + 1)]
        return wanted

    def _chosen(
        self,
        sentence: int,
        written: list[list[int]],
        taken: dict[tuple[int, int], float],
        *,
        last: bool,
    ) -> list[_Candidate]:
        """Ends with all met, if they are among the best of their bank; then the next beam."""
        phrases, full = self.phrases[sentence], self.full[sentence]
        candidates = sorted(
            (
                _Candidate(total, token, parent, met([*written[parent], token], phrases))
                for (parent, token), total in taken.items()
                if total != -math.inf
            ),
            key=lambda c: -c.total,
        )
        if last:  # what is still missing cannot be met any more
            candidates = [c for c in candidates if c.bank == full]
        complete = [c for c in candidates if c.bank == full]
        ends = [c for c in complete[: self.size] if c.token == EOS]
        on = [c for c in candidates if c.token != EOS]
        quota, more = divmod(self.size, full + 1)
        beam: list[_Candidate] = []
        for bank in range(full, -1, -1):  # what is left over goes to those that have met most
            places = [c for c in on if c.bank == bank][: quota + more]
            more -= max(0, len(places) - quota)
            beam += places
        rest = (c for c in on if c not in beam)
        beam += [c for c, _ in zip(rest, range(self.size - len(beam)), strict=False)]
        return ends + beam
