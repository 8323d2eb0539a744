"""Tags as people read them: stretches of a text in brackets, and their places in characters."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.annotations.tag_schemes import repaired, spans_of
from regard.runtime.answer import PlainPrediction

__all__ = ["RolesText", "TaggedText", "bracketed"]


@dataclass(frozen=True, eq=False)
class TaggedText(PlainPrediction):
    """The tags of a text, `output`, one for each of its words.

    Args:
        scheme: of the tags; "": they stand for single words.
    """

    scheme: str = ""

    @property
    def line(self) -> str:
        """The text with its stretches in brackets: `[PER Greta Rossi] works`; else the tags."""
        tags = self.output.split()
        return bracketed(self.input.split()[: len(tags)], tags, self.scheme)

    @property
    def entities(self) -> list[dict[str, Any]]:
        """Each stretch: `start` and `end` in characters of the input, `label` and `text`."""
        if not self.scheme:
            return []
        text = self.input  # further inputs, as features, stand behind the words
        places = [found.span() for found in re.finditer(r"\S+", text)]
        tags = self.output.split()
        found = []
        for first, last, label in spans_of(repaired(tags, self.scheme), self.scheme):
            start, end = places[first][0], places[last - 1][1]
            found.append({"start": start, "end": end, "label": label, "text": text[start:end]})
        return found

    def as_json(self) -> dict[str, Any]:
        """With `entities`, where tags have a scheme."""
        made = super().as_json()
        return {**made, "entities": self.entities} if self.scheme else made


@dataclass(frozen=True, eq=False)
class RolesText(PlainPrediction):
    """The roles of a plain text: `output` in brackets, ` | ` between its predicates.

    `alternatives` has the prediction of each predicate, with its tags; `score` is their sum.

    Args:
        words: that the text was cut into.
        predicates: the places of those that were found among the words, from 0; maybe none.
    """

    words: Sequence[str] = ()
    predicates: Sequence[int] = ()

    def as_json(self) -> dict[str, Any]:
        """With the words and the places of predicates; `alternatives` in the order of these."""
        own = {"words": list(self.words), "predicates": list(self.predicates)}
        return {**super().as_json(), **own}


def bracketed(words: Sequence[str], tags: Sequence[str], scheme: str) -> str:
    """A text with the stretches that tags tell in brackets; without a scheme, the tags.

    Example:
        >>> bracketed("She gave it away".split(), "B-A0 B-V B-A1 O".split(), "bio")
        '[A0 She] [V gave] [A1 it] away'
    """
    if not scheme:
        return " ".join(tags)
    found, reached = list[str](), 0
    for start, end, label in spans_of(repaired(tags, scheme), scheme):
        inside = " ".join([label, *words[start:end]]).strip()
        found += [*words[reached:start], f"[{inside}]"]
        reached = end
    return " ".join([*found, *words[reached:]])
