"""What a model gives for one input, with its runners-up."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.metrics.alignment import Link

__all__ = ["NO_TRAIL", "Prediction"]

NO_TRAIL = torch.zeros(0, 2, dtype=torch.int64)
"""The trail of what was not decoded step by step."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """The output for one input, with its runners-up.

    Args:
        score: of the best hypothesis, as the decoder ranks it; None where nothing was decoded.
        tokens, token_scores: its pieces (with the end token if it ended by itself) and the
            log-probability of each.
        alternatives: the other hypotheses, best first, each a prediction of its own.
        trail: where the hypothesis stood in the beam at each step (`decode.Hypothesis`).
        refused: why the input was not decoded, "" if it was (or was empty).
        ids: of `tokens`.
        alignment: pairs of a source word and the output word it is linked to, both counted from 0;
            None where nobody asked (see `inference.alignment`).
        copied: of each of `tokens`, whether it is a word of the input that the model's vocabulary
            lacks; empty where the model cannot copy.
    """

    input: str
    output: str
    score: float | None = None
    tokens: list[str] = field(default_factory=list)
    token_scores: list[float] = field(default_factory=list)
    alternatives: list["Prediction"] = field(default_factory=list)
    trail: Tensor = NO_TRAIL
    refused: str = ""
    ids: list[int] = field(default_factory=list)
    alignment: tuple[Link, ...] | None = None
    copied: list[bool] = field(default_factory=list)

    @property
    def log_prob(self) -> float | None:
        """What the tokens' scores add up to; `score` is this over the decoder's length penalty."""
        return sum(self.token_scores) if self.token_scores else None

    @property
    def line(self) -> str:
        """As `regard predict` writes it: the output, in one line."""
        return " ".join(self.output.splitlines())

    @property
    def probability(self) -> float:
        """Of the output, where the score is the logarithm of one; 0 where there is no answer."""
        return 0.0 if self.score is None else min(math.exp(self.score), 1.0)

    def probability_of(self, output: str) -> float:
        """Of this output: the prediction's own, or that of an alternative; 0 of another."""
        for one in (self, *self.alternatives):
            if one.output == output:
                return one.probability
        return 0.0

    def as_json(self) -> dict[str, Any]:
        """Plain values: input, output, scores, tokens with theirs, alternatives, alignments."""
        return {"input": self.input, **self._hypothesis(), "alternatives": self._others()}

    def _hypothesis(self) -> dict[str, Any]:
        # CTC has no scores of single tokens.
        scores: Sequence[float | None] = self.token_scores or [None] * len(self.tokens)
        pairs = zip(self.tokens, scores, strict=True)
        tokens = [{"token": token, "score": score} for token, score in pairs]
        made = {"output": self.output, "score": self.score, "log_prob": self.log_prob}
        links = {} if self.alignment is None else {"alignment": [list(x) for x in self.alignment]}
        return {**made, "tokens": tokens, **links}

    def _others(self) -> list[dict[str, Any]]:
        return [other._hypothesis() for other in self.alternatives]
