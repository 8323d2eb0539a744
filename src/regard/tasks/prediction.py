"""What a model gives for one input, with its runners-up."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.runtime.answer import PlainPrediction

__all__ = ["NO_TRAIL", "Prediction"]

NO_TRAIL = torch.zeros(0, 2, dtype=torch.int64)
"""The trail of what was not decoded step by step."""


@dataclass(frozen=True, eq=False)
class Prediction(PlainPrediction):
    """The output for one input, with its runners-up.

    Args:
        input, output, score, tokens, token_scores, alternatives, refused, ids, alignment: see
            `PlainPrediction`; alternatives are predictions.
        trail: where the hypothesis stood in the beam at each step (`decode.Hypothesis`).
        copied: of each of `tokens`, whether it is a word of the input that the model's vocabulary
            lacks; empty where the model cannot copy.
    """

    alternatives: list["Prediction"] = field(default_factory=list)
    trail: Tensor = NO_TRAIL
    copied: list[bool] = field(default_factory=list)

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
