"""What a decoder gives back: one way to continue, with its scores and its trail."""

from dataclasses import dataclass

from torch import Tensor

from regard.protocols import EOS

__all__ = ["Hypothesis"]


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One output sequence.

    Args:
        tokens: ids without BOS; the last one is EOS if the sequence ended by itself, and is not if
            the length limit cut it.
        score: `log_prob` divided by the length penalty; what hypotheses are ranked by.
        log_prob: the model's own log-probability of `tokens`, the sum of `token_scores`.
        token_scores: the model's log-probability of each token given those before it.
        trail: (T, 2) int64; at decoder step t the query that gave token t sat at batch row
            `trail[t, 0]` and beam slot `trail[t, 1]`: a recorder's `steps[t][row, slot]`.
    """

    tokens: list[int]
    score: float
    log_prob: float
    token_scores: list[float]
    trail: Tensor

    @property
    def finished(self) -> bool:
        """Whether it ended in EOS rather than at the length limit."""
        return bool(self.tokens) and self.tokens[-1] == EOS
