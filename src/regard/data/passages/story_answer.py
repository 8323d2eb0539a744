"""An answer to a question about a story, in plain values."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.data.passages.stories import words_of
from regard.runtime.answer import PlainPrediction

__all__ = ["NONE", "OTHERS", "StoryAnswer", "warn_unknown_words"]

log = logging.getLogger(__name__)

NONE = "no sentence: expected facts and a question, as 'Ann went home. Where is Ann?'"
OTHERS = 5
"""Answers that are given for a text, the best among them."""


@dataclass(frozen=True, eq=False)
class StoryAnswer(PlainPrediction):
    """An answer, with the facts that were looked at.

    Args:
        facts: of the story, as far as they were kept.
        looks: the weight of each fact at each hop; none where a whole data set is answered.
    """

    facts: list[str] = field(default_factory=list)
    looks: list[list[float]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """As every prediction, and each fact with its weight at every hop."""
        told = [
            {"fact": fact, "hops": [round(hop[i], 4) for hop in self.looks]}
            for i, fact in enumerate(self.facts)
        ]
        return {**super().as_json(), "facts": told}


def warn_unknown_words(texts: Sequence[str], vocabulary: Sequence[str]) -> None:
    """Say which words of facts and questions training never had."""
    known = set(vocabulary)
    unknown = dict.fromkeys(w for text in texts for w in words_of(text) if w not in known)
    if unknown:
        shown = ", ".join(repr(word) for word in list(unknown)[:5])
        log.warning("%d words were never seen in training and say nothing: %s", len(unknown), shown)
