"""A sentence in which two places are marked: "The <e1>fire</e1> came from <e2>a spark</e2>"."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from regard.fields.base import Bad
from regard.fields.text import TextField

__all__ = ["MARK", "MarkedTextField"]

_MARKS = ("<e1>", "</e1>", "<e2>", "</e2>")
"""What stands before and behind each place; the tokenizer `wordpunct` keeps each as one token."""

MARK = re.compile(r"</?e[12]>")
_ORDERS = (_MARKS, (*_MARKS[2:], *_MARKS[:2]))


class MarkedTextField(TextField):
    """A `TextField` whose texts mark two places, one after the other.

    The marks are tokens like the words; their place among these says which words are meant.
    """

    kind: ClassVar[str] = "marked-text"

    def to_encoder(self, value: Any) -> tuple[str, NDArray[np.int64]]:
        """The text without its marks, which are no words; a mark has a place without a letter."""
        text, places = super().to_encoder(value)
        kept = np.ones(len(text) + 1, np.int64)
        for mark in MARK.finditer(text):
            kept[slice(*mark.span())] = 0
        before = np.concatenate([[0], kept.cumsum()])
        return MARK.sub("", text), before[places]

    def read(self, cell: str, row: Mapping[str, Any]) -> str:
        """The text with its marks."""
        text = super().read(cell, row)
        marks = tuple(MARK.findall(text))
        if marks not in _ORDERS:
            raise Bad(
                "not two marked places",
                "expected <e1>one</e1> and <e2>another</e2>, got "
                + (" ".join(marks) if marks else "no mark"),
            )
        for left, right in (_MARKS[:2], _MARKS[2:]):
            if not text[text.index(left) + len(left) : text.index(right)].strip():
                raise Bad("a marked place is empty", f"{left}{right}")
        return text
