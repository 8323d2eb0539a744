"""Labels: one class of a fixed set for each example, or several."""

import csv
import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar

import numpy as np

from regard.data.files.delimited import Dialect, written
from regard.data.text.normal_form import composed
from regard.errors import RequestError
from regard.fields.base import Bad, Field, Report
from regard.fields.columns import ArrayColumn

__all__ = ["LabelField", "LabelsField", "OrdinalField", "labels_in"]

UNSEEN = "unseen label"


def labels_in(cell: str, separator: str = ",") -> list[str]:
    """The labels of a cell; one with the separator in it is in quotes, as in CSV.

    Example:
        >>> labels_in('a, b,"Paris, France"')
        ['a', 'b', 'Paris, France']
    """
    if '"' not in cell:
        return [one.strip() for one in cell.split(separator) if one.strip()]
    try:
        found = next(csv.reader([cell], delimiter=separator, skipinitialspace=True, strict=True))
    except csv.Error:
        found = cell.split(separator)
    return [one.strip() for one in found if one.strip()]


class _Named(Field):
    """What labels of either kind have: a fixed list of names, in the order of the alphabet."""

    def __init__(self, *, target: bool = True, of: str | None = None) -> None:
        super().__init__(target=target, of=of)
        self.names: list[str] = []

    @property
    def learned(self) -> bool:
        """Whether the labels are known."""
        return bool(self.names)

    def arguments(self) -> dict[str, int]:
        """`num_classes`."""
        return {"num_classes": len(self.names)}

    def rows(self) -> Mapping[str, Sequence[str]]:
        """A row for each label."""
        return {"num_classes": self.names}

    def grown(self, values: Sequence[Any]) -> Any:
        """The labels of `before`, and behind them those that are new."""
        assert isinstance(self.before, _Named)
        if not self.extends:
            return self.before
        told = {name for one in values for name in ([one] if isinstance(one, str) else one)}
        return self._with([*self.before.names, *sorted(told - {*self.before.names})])

    def state(self) -> dict[str, Any]:
        """The names."""
        return {"labels": self.names}

    def restored(self, state: Mapping[str, Any]) -> Any:
        """With the names that were saved."""
        names = state["labels"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("expected a list of names under 'labels'")
        return self._with(names)

    def _with(self, names: Sequence[str]) -> Any:
        made = copy(self)
        made.names = list(names)
        return made

    def _named(self, names: set[str]) -> Any:
        if not names:
            raise RequestError("the training data has no label")
        return self._with(sorted(names))


class LabelField(_Named):
    """One class for each example.

    A batch has the number of the class, (B,) int64; -1 for a label that training never had, which
    no loss counts and every score counts as an error.
    """

    kind: ClassVar[str] = "label"

    def read(self, cell: str, row: Mapping[str, Any]) -> str:
        """The label without white space at its ends."""
        label = composed(cell.strip())
        if not label:
            raise Bad("empty")
        return label

    def learn(self, values: Sequence[str]) -> "LabelField":
        """With the labels of the training data.

        Raises:
            RequestError: there is one label alone: nothing can be learned.
        """
        names = set(values)
        if len(names) == 1:
            only = names.pop()
            raise RequestError(f"expected two labels or more in training, got {only!r} alone")
        found: LabelField = self._named(names)
        return found

    def encode(
        self, values: Sequence[str], report: Report, fields: Mapping[str, Field], rows: Any = None
    ) -> ArrayColumn:
        """The number of each label."""
        index = {self._key(name): i for i, name in enumerate(self.names)}
        numbers = np.array([index.get(value, -1) for value in values], np.int64)
        for i in np.flatnonzero(numbers < 0).tolist():
            report(i, UNSEEN, f"{values[i]!r} is not in the training data")
        return ArrayColumn(numbers, numbers >= 0)

    def decode(self, value: int) -> str:
        """The name of a number."""
        return self.names[int(value)]

    def _key(self, name: str) -> str:
        """What two names of one label have in common."""
        return composed(name)


class OrdinalField(LabelField):
    """One class of an order for each example; labels are numbers, and stand in their order.

    A model has a logit for each border between two of them.
    """

    kind: ClassVar[str] = "ordinal"

    def read(self, cell: str, row: Mapping[str, Any]) -> str:
        """The label, a finite number in its shortest form: 1 and 1.0 are one label."""
        label = super().read(cell, row)
        try:
            number = float(label)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise Bad("not a number", repr(label))
        return self._key(label)

    def _key(self, name: str) -> str:
        number = float(name)
        short = f"{number:g}"
        return short if float(short) == number else repr(number)

    def arguments(self) -> dict[str, int]:
        """`num_classes`: one less than there are labels."""
        return {"num_classes": len(self.names) - 1}

    def rows(self) -> Mapping[str, Sequence[str]]:
        """A row for each border between two labels."""
        borders = zip(self.names, self.names[1:], strict=False)
        return {"num_classes": [f"{low}|{high}" for low, high in borders]}

    def grown(self, values: Sequence[Any]) -> Any:
        """The labels of `before` and the new ones, all in their order."""
        grown: OrdinalField = super().grown(values)
        return self._with(sorted(grown.names, key=float))

    def learn(self, values: Sequence[str]) -> "OrdinalField":
        """With the labels of the training data, in order."""
        found = super().learn(values)
        return self._with(sorted(found.names, key=float))  # type: ignore[no-any-return]


class LabelsField(_Named):
    """Any number of classes for each example, none too.

    A batch has (B, num_classes) float32 of 0 and 1.

    Args:
        separator: what stands between two labels of a cell; a label with it in it is in quotes.
    """

    kind: ClassVar[str] = "labels"

    def __init__(self, separator: str = ",", *, target: bool = True, of: str | None = None) -> None:
        super().__init__(target=target, of=of)
        self.separator = separator

    @property
    def lists(self) -> bool:
        """A list has labels."""
        return True

    def listed(self, items: Sequence[str]) -> str:
        """The labels of a list as a cell."""
        return self.written(items)

    def read(self, cell: str, row: Mapping[str, Any]) -> tuple[str, ...]:
        """The labels in the order of the alphabet, each once."""
        return tuple(sorted({*labels_in(composed(cell), self.separator)}))

    def written(self, value: Sequence[str]) -> str:
        """Labels with the separator between them."""
        return written(value, Dialect(self.separator)) if any(value) else ""

    def learn(self, values: Sequence[Sequence[str]]) -> "LabelsField":
        """With the labels of the training data."""
        found: LabelsField = self._named({name for value in values for name in value})
        return found

    def encode(
        self,
        values: Sequence[Sequence[str]],
        report: Report,
        fields: Mapping[str, Field],
        rows: Any = None,
    ) -> ArrayColumn:
        """A row of 0 and 1 for each example; labels that are unseen have no place in it."""
        index = {composed(name): i for i, name in enumerate(self.names)}
        found = np.zeros((len(values), len(self.names)), np.float32)
        for i, value in enumerate(values):
            for name in value:
                if name in index:
                    found[i, index[name]] = 1.0
                else:
                    report(i, UNSEEN, f"{name!r} is not in the training data")
        return ArrayColumn(found)

    def decode(self, value: Sequence[int]) -> str:
        """The names of some numbers."""
        return self.written(sorted(self.names[int(i)] for i in value))
