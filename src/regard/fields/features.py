"""Features of a pair of texts: numbers computed from other fields, read from no column."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar

from regard.data.pairs.sentence_features import PairFeatures
from regard.data.text.plain_words import plain_words
from regard.fields.base import Field, Report
from regard.fields.columns import ArrayColumn

__all__ = ["FeaturesField"]


class FeaturesField(Field):
    """What is known of a pair of texts beside their words: overlap, lengths, negation.

    A batch has (B, width) float32, standardized by mean and deviation of the training data.

    Args:
        kinds: see `data.pairs.sentence_features.KINDS`.
        sources: the two texts.
    """

    kind: ClassVar[str] = "features"
    derived: ClassVar[bool] = True

    def __init__(self, kinds: Sequence[str], sources: tuple[str, str]) -> None:
        super().__init__(target=False)
        self.kinds, self.sources = list(kinds), sources
        self._made = PairFeatures(self.kinds)
        self.mean: list[float] = []
        self.deviation: list[float] = []

    def read(self, cell: str, row: Mapping[str, Any]) -> None:
        """There is no cell."""

    @property
    def learned(self) -> bool:
        """Whether it knows the training data."""
        return bool(self.mean)

    def arguments(self) -> dict[str, int]:
        """`num_features`."""
        return {"num_features": self._made.width}

    def learn(self, values: Sequence[Any]) -> "FeaturesField":
        """With the frequencies of words, and the mean of each feature.

        Args:
            values: pairs of texts.
        """
        made = copy(self)
        pairs = _words(values)
        made._made = PairFeatures(self.kinds).learn(pairs)
        found = made._made.of(pairs)
        made.mean = [float(x) for x in found.mean(0)]
        made.deviation = [float(x) or 1.0 for x in found.std(0)]
        return made

    def encode(
        self, values: Sequence[Any], report: Report, fields: Mapping[str, Field], rows: Any = None
    ) -> ArrayColumn:
        """The features of each pair."""
        pairs = _words(list(zip(*(rows[name] for name in self.sources), strict=True)))
        found = (self._made.of(pairs) - self.mean) / self.deviation
        return ArrayColumn(found.astype("float32"))

    def state(self) -> dict[str, Any]:
        """Kinds, frequencies, means and deviations."""
        return {
            "kinds": self.kinds,
            "mean": self.mean,
            "deviation": self.deviation,
            "learned": self._made.state(),
        }

    def restored(self, state: Mapping[str, Any]) -> "FeaturesField":
        """With what was saved."""
        made = copy(self)
        made.kinds = [str(kind) for kind in state["kinds"]]
        made._made = self._made.restored(state["learned"])
        made.mean = [float(x) for x in state["mean"]]
        made.deviation = [float(x) for x in state["deviation"]]
        return made


def _words(pairs: Sequence[tuple[str, str]]) -> list[tuple[list[str], list[str]]]:
    first, second = (plain_words(pair[side] for pair in pairs) for side in (0, 1))
    return list(zip(first, second, strict=True))
