"""What a model gives for one input, in plain values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["PlainPrediction"]


@dataclass(frozen=True, eq=False)
class PlainPrediction:
    """The output for one input, with its runners-up.

    Args:
        score: of the best hypothesis, as the decoder ranks it; None where nothing was decoded.
        tokens, token_scores: its pieces (with the end token if it ended by itself) and the
            log-probability of each.
        alternatives: the other hypotheses, best first, each an answer of its own.
        refused: why the input was not decoded, "" if it was (or was empty).
        ids: of `tokens`.
        alignment: pairs of a source word and the output word it is linked to, both counted from 0;
            None where nobody asked (see `inference.alignment`).
    """

    input: str
    output: str
    score: float | None = None
    tokens: list[str] = field(default_factory=list)
    token_scores: list[float] = field(default_factory=list)
    alternatives: list[Any] = field(default_factory=list)
    refused: str = ""
    ids: list[int] = field(default_factory=list)
    alignment: tuple[tuple[int, int], ...] | None = None

    @property
    def log_prob(self) -> float | None:
        """What the tokens' scores add up to; `score` is this over the decoder's length penalty."""
        return sum(self.token_scores) if self.token_scores else None

    @property
    def line(self) -> str:
        """As `regard predict` writes it: the output, in one line."""
        return " ".join(self.output.splitlines())

    def as_json(self) -> dict[str, Any]:
        """Plain values: input, output, scores, tokens with theirs, alternatives, alignments."""
        others = [other.hypothesis() for other in self.alternatives]
        return {"input": self.input, **self.hypothesis(), "alternatives": others}

    def hypothesis(self) -> dict[str, Any]:
        """Plain values of the output alone."""
        # CTC has no scores of single tokens.
        scores: Sequence[float | None] = self.token_scores or [None] * len(self.tokens)
        pairs = zip(self.tokens, scores, strict=True)
        tokens = [{"token": token, "score": score} for token, score in pairs]
        made = {"output": self.output, "score": self.score, "log_prob": self.log_prob}
        links = {} if self.alignment is None else {"alignment": [list(x) for x in self.alignment]}
        return {**made, "tokens": tokens, **links}
