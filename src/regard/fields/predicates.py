"""Which words of a text are predicates: learned from the marks of the training data."""

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from regard.data.annotations.predicate_finder import PredicateFinder
from regard.fields.base import Field, Report
from regard.fields.columns import ArrayColumn

__all__ = ["PredicatesField"]


class PredicatesField(Field):
    """A finder of the words that are marked in training, for texts in which none is marked.

    It is read from no column, and models see nothing of it: a batch has a False for each example.
    Rows of one text that follow each other are one sentence; its predicates are all that they mark.

    Args:
        text, marks: the two fields it is learned from.
    """

    kind: ClassVar[str] = "predicates"
    derived: ClassVar[bool] = True
    optional: ClassVar[bool] = True

    def __init__(self, text: str, marks: str) -> None:
        super().__init__()
        self.sources = (text, marks)
        self.finder: PredicateFinder | None = None
        """None in a model folder of before there were finders."""

    def read(self, cell: str, row: Mapping[str, Any]) -> None:
        """There is no cell."""

    @property
    def learned(self) -> bool:
        """Whether predicates can be found."""
        return self.finder is not None

    def learn(self, values: Sequence[tuple[str, Sequence[int]]]) -> "PredicatesField":
        """With a finder.

        Args:
            values: texts and the places that are marked.
        """
        made = copy(self)
        sentences = [
            (text.split(), {place for _, places in rows for place in places})
            for text, rows in groupby(values, key=itemgetter(0))
        ]
        made.finder = PredicateFinder.learn(sentences)
        return made

    def encode(
        self, values: Sequence[Any], report: Report, fields: Mapping[str, Field], rows: Any = None
    ) -> ArrayColumn:
        """Nothing that a model reads."""
        return ArrayColumn(np.zeros(len(values), np.bool_))

    def state(self) -> dict[str, Any]:
        """The weights, where there are any."""
        if self.finder is None:
            return {}
        return {"bias": self.finder.bias, "weights": self.finder.weights}

    def restored(self, state: Mapping[str, Any]) -> "PredicatesField":
        """With the weights that were saved."""
        made = copy(self)
        weights = {str(one): float(weight) for one, weight in state["weights"].items()}
        made.finder = PredicateFinder(weights, float(state["bias"]))
        return made
