"""A key: what an example belongs to, as the question of an answer."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.text.normal_form import composed
from regard.fields.base import Bad, Field, Report
from regard.fields.columns import ArrayColumn

__all__ = ["KeyField"]


class KeyField(Field):
    """A name that examples share; scores go by it, and no model ever sees it.

    A batch has the number of the key among those of the split, (B,) int64.
    """

    kind: ClassVar[str] = "key"
    saved: ClassVar[bool] = False

    def __init__(self, *, target: bool = True, of: str | None = None) -> None:
        super().__init__(target=target, of=of)

    def read(self, cell: str, row: Mapping[str, Any]) -> str:
        """The key in NFC, without white space at its ends."""
        key = composed(cell.strip())
        if not key:
            raise Bad("empty")
        return key

    def encode(
        self, values: Sequence[str], report: Report, fields: Mapping[str, Field], rows: Any = None
    ) -> ArrayColumn:
        """The number of each key, in order of appearance."""
        numbers: dict[str, int] = {}
        found = [numbers.setdefault(value, len(numbers)) for value in values]
        return ArrayColumn(np.array(found, np.int64))
