"""Translation: a sentence in one language to a sentence in another."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from regard.metrics import Score, bleu, chrf
from regard.tasks.generation.base import Generation
from regard.tasks.prediction import Prediction

__all__ = ["Translation"]


class Translation(Generation):
    """Sentences to sentences, scored by BLEU and chrF.

    Args:
        smoothing: label smoothing ε of the training loss.
        max_source: inputs of more tokens than this, EOS counted, are refused.
        tokenize: sacreBLEU's tokenizer for BLEU: 13a, zh, intl, char, none.
        lowercase: BLEU without regard to case (older papers' numbers); it is in the signature.
        guided, scheduled, risk, self_critical, bpe_dropout: see `Generation`.
    """

    name: ClassVar[str] = "translation"
    metric: ClassVar[str] = "bleu"

    def __init__(
        self,
        smoothing: float = 0.0,
        max_source: int = 1024,
        tokenize: str = "13a",
        lowercase: bool = False,
        guided: Mapping[str, Any] | None = None,
        scheduled: Mapping[str, Any] | None = None,
        risk: Mapping[str, Any] | None = None,
        self_critical: Mapping[str, Any] | None = None,
        bpe_dropout: float = 0.0,
    ) -> None:
        super().__init__(
            smoothing,
            max_source,
            guided,
            scheduled,
            risk,
            self_critical=self_critical,
            bpe_dropout=bpe_dropout,
        )
        self.tokenize, self.lowercase = tokenize, lowercase

    def pairs(
        self, source: str, target: str, *, training: bool
    ) -> tuple[list[tuple[str, str]], list[str]]:
        """One row is one pair."""
        return [(source, target)], [target]

    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """BLEU and chrF of the best outputs."""
        outputs, references = [p.output for p in predictions], examples.references
        return {
            "bleu": bleu(outputs, references, tokenize=self.tokenize, lowercase=self.lowercase),
            "chrf": chrf(outputs, references),
        }
