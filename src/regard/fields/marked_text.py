"""A sentence in which two places are marked: "The <e1>fire</e1> came from <e2>a spark</e2>"."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from regard.data.text.entity_marks import MARK, check_marks
from regard.fields.text import TextField

__all__ = ["MARK", "MarkedTextField"]


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
        check_marks(text)
        return text
