"""A number for each example: a similarity, a grade."""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar

import numpy as np

from regard.errors import RequestError
from regard.fields.base import Bad, Field, Report
from regard.fields.columns import ArrayColumn

__all__ = ["GradeField", "NumberField"]


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


class GradeField(NumberField):
    r"""A number as a distribution over the whole grades between the lowest and the highest.

    A batch has (B, grades) float32: the two grades next to y share all mass, so that
    :math:`\sum_k k\, p_k = y`. A number outside the range of training is the end of the range.

    Source: Tai et al. (2015), section 4.2.
    """

    kind: ClassVar[str] = "grade"

    @property
    def grades(self) -> range:
        """The whole grades, two at least.

        Raises:
            RequestError: there are more than 100.
        """
        low, high = math.floor(self.low), math.ceil(self.high)
        if high - low > 100:
            raise RequestError(
                f"expected numbers within a range of 100, got {self.low:g} to {self.high:g}: "
                "divide them first"
            )
        return range(low, max(high, low + 1) + 1)

    def arguments(self) -> dict[str, int]:
        """`num_classes`: how many grades."""
        return {"num_classes": len(self.grades)}

    def encode(
        self, values: Sequence[float], report: Report, fields: Mapping[str, Field], rows: Any = None
    ) -> ArrayColumn:
        """The distribution of each number."""
        grades = self.grades
        place = np.clip(np.array(values, np.float64) - grades[0], 0, len(grades) - 1)
        below = np.minimum(np.floor(place).astype(np.int64), len(grades) - 2)
        found, at = np.zeros((len(values), len(grades)), np.float32), np.arange(len(values))
        found[at, below] = 1 - (place - below)
        found[at, below + 1] = place - below
        return ArrayColumn(found)
