"""The hypotheses of a sentence that have ended, and whether a beam need go on for it."""

import math
from bisect import insort
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.decode.history import End
from regard.protocols import EOS

if TYPE_CHECKING:
    from regard.decode.beam import Beam

__all__ = ["Alive", "Ended"]


class Alive(NamedTuple):
    """The hypotheses that go on after a step.

    Shapes:
        (n, width) each; `extra` has the coverage penalty of each old slot
    """

    parents: Any
    tokens: Any
    totals: Any
    extra: list[list[float]] | None


class Ended:
    """The hypotheses of one sentence that have ended, best first.

    Args:
        limit: the most tokens.
        gain: what rules may add to the score of a token.
    """

    start = 0
    """The step at which the sentence began."""

    def __init__(self, beam: "Beam", sentence: int, limit: int, gain: float = 0.0) -> None:
        self.beam, self.sentence, self.limit, self.gain = beam, sentence, limit, gain
        self.wanted = beam.n_best if beam.bound == "limit" else beam.beam_size
        self.ended: list[End] = []
        self.cut: list[End] = []
        patience = 1.0 if beam.beam_size == 1 else beam.patience
        self.enough = math.inf if patience is None else patience * beam.beam_size

    def end(self, step: int, parent: int, total: float, extra: float) -> None:
        """Enter a hypothesis that ended in EOS; among equals the earlier stays before."""
        if total != -math.inf:
            score = total / self.beam.normalizer(step - self.start + 1) + extra
            end = End(self.sentence, step, parent, EOS, total, score)
            insort(self.ended, end, key=lambda e: -e.score)

    def closed(self, step: int, likeliest: float, alive: Alive, row: int) -> bool:
        """Whether the sentence is finished, given the hypotheses still alive."""
        length = step - self.start + 1
        if length >= self.limit:
            self.cut = self._cut(step, alive, row)
            return True
        if likeliest == -math.inf or len(self.ended) >= self.enough:
            return True
        if len(self.ended) < self.wanted:
            return False
        return self._hope(likeliest, length) <= self.ended[self.wanted - 1].score

    def _hope(self, best: float, length: int) -> float:
        """The score that a hypothesis of this length may still have, the bound of the search."""
        if self.beam.bound == "now":
            return best / self.beam.normalizer(length)
        if not self.gain:
            return best / self.beam.normalizer(self.limit)
        # Each token but the last, EOS, may gain; the best length then lies anywhere.
        return max(
            (best + self.gain * max(size - length - 1, 0)) / self.beam.normalizer(size)
            for size in range(length + 1, self.limit + 1)
        )

    def so_far(self, step: int, alive: Alive, row: int) -> list[End]:
        """Up to `n_best` of those that have ended and those alive, ranked as if all ended here."""
        each = [*self.ended, *self._cut(step, alive, row)]
        return sorted(each, key=lambda e: -e.score)[: self.beam.n_best]

    def _cut(self, step: int, alive: Alive, row: int) -> list[End]:
        """The hypotheses alive as ends, best first."""
        score = self.beam.normalizer(step - self.start + 1)
        own = zip(*(x[row].tolist() for x in alive[:3]), strict=True)
        cut = [
            End(self.sentence, step, parent, token, total, total / score + extra)
            for parent, token, total in own
            for extra in [0.0 if alive.extra is None else alive.extra[row][parent]]
            if total != -math.inf
        ]
        return sorted(cut, key=lambda e: -e.score)

    def best(self) -> list[End]:
        """Give up to `n_best` ends: those in EOS before those that the limit cut."""
        return (self.ended + self.cut)[: self.beam.n_best]
