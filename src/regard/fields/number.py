"""A number for each example: a similarity, a grade."""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar

import numpy as np

from regard.fields.base import Bad, Field, Report
from regard.fields.label import ArrayColumn

__all__ = ["NumberField"]


class NumberField(Field):
    """A finite number.

    A batch has (B,) float32. The lowest and the highest number of the training data are kept: a
    model's outputs can be kept between them.
    """

    kind: ClassVar[str] = "number"

    def __init__(self, *, target: bool = True, of: str | None = None) -> None:
        super().__init__(target=target, of=of)
        self.low, self.high = -math.inf, math.inf

    def read(self, cell: str, row: Mapping[str, Any]) -> float:
        """The number of a cell."""
        text = cell.strip()
        if not text:
            raise Bad("empty")
        try:
            value = float(text)
        except ValueError:
            raise Bad("not a number", repr(text)) from None
        if not math.isfinite(value):
            raise Bad("not a number", f"{text!r} is not finite")
        return value

    def written(self, value: float) -> str:
        """The shortest text that is read as this number."""
        return f"{value:g}" if float(f"{value:g}") == value else repr(float(value))

    def learn(self, values: Sequence[float]) -> "NumberField":
        """With the range of the training data."""
        made = copy(self)
        made.low, made.high = min(values), max(values)
        return made

    def encode(
        self, values: Sequence[float], report: Report, fields: Mapping[str, Field], rows: Any = None
    ) -> ArrayColumn:
        """All numbers, float32."""
        return ArrayColumn(np.array(values, np.float32))

    def state(self) -> dict[str, Any]:
        """The range."""
        known = math.isfinite(self.low) and math.isfinite(self.high)
        return {"range": [self.low, self.high] if known else None}

    def restored(self, state: Mapping[str, Any]) -> "NumberField":
        """With the range that was saved."""
        made = copy(self)
        if state["range"] is not None:
            low, high = map(float, state["range"])
            made.low, made.high = low, high
        return made
