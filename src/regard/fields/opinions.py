"""Weak tags of opinion words, from a list of words: for models that tag opinions beside aspects."""

import gzip
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from regard.data.sources import shipped
from regard.fields.base import Field, Report
from regard.fields.tags import TagColumn, TagsField

__all__ = ["OpinionTagsField"]

LEAST = 1.0
"""The valence, of 4, from which on a word is one of opinion."""
NAMES = ("B", "O")


class OpinionTagsField(TagsField):
    """Tag B at each word that the shipped list `opinion-words` has as clearly good or bad, else O.

    The tags are computed from the text and read from no column. They are weak: words that are used
    in another sense are tagged too.

    Args:
        of: the text.
    """

    kind: ClassVar[str] = "opinion-tags"
    derived: ClassVar[bool] = True
    saved: ClassVar[bool] = False

    def __init__(self, of: str) -> None:
        super().__init__(of)
        self.sources = (of,)
        self.names = list(NAMES)

    def read(self, cell: str, row: Mapping[str, Any]) -> list[str]:
        """There is no cell."""
        return []

    def learn(self, values: Sequence[Any]) -> "OpinionTagsField":
        """The tags are known."""
        return self

    def encode(
        self,
        values: Sequence[Any],
        report: Report,
        fields: Mapping[str, Field],
        rows: Any = None,
    ) -> TagColumn:
        """The tags of the words of each text."""
        known = _words()
        texts = rows[self.sources[0]]
        tags = [["B" if w.lower() in known else "O" for w in text.split()] for text in texts]
        return super().encode(tags, report, fields, rows)


@cache
def _words() -> frozenset[str]:
    with gzip.open(shipped() / "opinion-words" / "words.tsv.gz", "rt", encoding="utf-8") as file:
        rows = (line.split("\t") for line in file)
        return frozenset(word for word, valence in rows if abs(float(valence)) >= LEAST)
