"""Pronunciation: the letters of a word to its phonemes."""

from collections.abc import Sequence
from typing import Any, ClassVar

from regard.errors import RequestError
from regard.metrics import Score, per, wer
from regard.tasks.generation.base import Generation
from regard.tasks.prediction import Prediction

__all__ = ["Pronunciation"]


class Pronunciation(Generation):
    """Letters to phonemes, scored by phoneme and word error rate against the nearest variant.

    A file has a word and its pronunciations in two columns, `read<tab>R IY D | R EH D`: phonemes
    divided by spaces, variants by ' | '.

    Args:
        smoothing: label smoothing ε of the training loss.
        max_source: words of more letters than this, EOS counted, are refused.
        variants: learn from "all" variants of a word, each a pair, or from the "first" alone.
    """

    name: ClassVar[str] = "pronunciation"
    metric: ClassVar[str] = "per"
    columns: ClassVar[dict[str, str | int]] = {"source": 1, "target": 2}
    header: ClassVar[bool] = False
    tokenizer: ClassVar[dict[str, Any]] = {
        "source": {"kind": "characters", "lowercase": True},
        "target": {"kind": "words"},
    }

    def __init__(
        self,
        smoothing: float = 0.0,
        max_source: int = 256,
        variants: str = "all",
    ) -> None:
        super().__init__(smoothing, max_source)
        if variants not in ("all", "first"):
            raise RequestError(f"task.variants is {variants!r}; it must be 'all' or 'first'")
        self.variants = variants

    def pairs(
        self, source: str, target: str, *, training: bool
    ) -> tuple[list[tuple[str, str]], list[str]]:
        """A pair for each variant in training, one pair with several references elsewhere."""
        right = [" ".join(v.split()) for v in target.split("|") if v.strip()]
        if training and self.variants == "all":
            return [(source, variant) for variant in right], right
        return [(source, variant) for variant in right[:1]], right

    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """PER and WER of the best outputs."""
        outputs, references = [p.output for p in predictions], examples.references
        return {"per": per(outputs, references), "wer": wer(outputs, references)}
