"""What is known of each word of a text beside its form: marks of some words, further columns."""

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.annotations.predicate_texts import places_of
from regard.data.ragged import RaggedIds
from regard.data.text.normal_form import composed
from regard.fields.base import Bad, Field, Report
from regard.protocols import Inputs

__all__ = ["MarksField", "WordColumn", "WordFeatureField", "one_each"]

UNSEEN = 0
"""The id of padding, and of a value that training never had."""


class WordColumn:
    """One number for each word of each text, `padding` behind them.

    Args:
        ids: of each text.
        values: what the ids stand for, as (ids,) of any type; themselves where not given.
    """

    padding: ClassVar[int] = UNSEEN

    def __init__(self, ids: RaggedIds, values: NDArray[Any] | None = None) -> None:
        self.ids, self.values = ids, values

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Words of each text."""
        sizes: NDArray[np.int64] = self.ids.sizes
        return sizes

    @property
    def counts(self) -> NDArray[np.int64]:
        """Every word counts."""
        return self.sizes

    def take(self, indices: NDArray[np.int64]) -> "WordColumn":
        """Those of some texts."""
        return WordColumn(self.ids.take(indices), self.values)

    def collate(self, indices: NDArray[np.int64]) -> Inputs:
        """Numbers (B, T) and lengths."""
        found = self.ids.padded(indices, self.padding, self.padding)[:, :-1]
        if self.values is not None:
            found = self.values[found]
        return Inputs(torch.from_numpy(found), torch.from_numpy(self.ids.sizes_at(indices)))


def one_each(cell: str, text: str | None, kind: str) -> list[str]:
    """The values of a cell in NFC, one for each word of its text.

    Args:
        text: words divided by blanks; None: not known.
        kind: what the values are, in the plural.

    Raises:
        Bad: there is none, or there are more or fewer than words.
    """
    values = composed(cell).split()
    if not values:
        raise Bad("empty")
    words = len(values) if text is None else len(text.split())
    if len(values) != words:
        raise Bad(f"{kind} and words differ", f"{len(values)} {kind} for {words} words")
    return values


class MarksField(Field):
    """Which words of a text are marked, by their numbers from 0: the predicate that is asked about.

    A cell is one number, or several divided by blanks. A batch has 1 at marked words, (B, T).

    Args:
        of: the text, whose words are divided by blanks.
    """

    kind: ClassVar[str] = "marks"
    saved: ClassVar[bool] = False

    def __init__(self, of: str) -> None:
        super().__init__(of=of)

    @property
    def lists(self) -> bool:
        """A list has numbers."""
        return True

    def read(self, cell: str, row: Mapping[str, Any]) -> list[int]:
        """The numbers."""
        return places_of(cell, row.get(self.of or ""))

    def written(self, value: Sequence[int]) -> str:
        """Numbers divided by blanks."""
        return " ".join(map(str, value))

    def encode(
        self,
        values: Sequence[Sequence[int]],
        report: Report,
        fields: Mapping[str, Field],
        rows: Any = None,
    ) -> WordColumn:
        """1 for marked words."""
        texts = rows[self.of]
        found = []
        for text, value in zip(texts, values, strict=True):
            marks = [0] * len(text.split())
            for number in value:
                marks[number] = 1
            found.append(marks)
        return WordColumn(RaggedIds.rows(found))


class WordFeatureField(Field):
    """A further column of words, as their parts of speech: one value for each, divided by blanks.

    All such columns of a task share one table of ids: those of a column come behind those of the
    columns before it, its first one for what training never had.

    Args:
        of: the text.
    """

    kind: ClassVar[str] = "word-feature"

    def __init__(self, of: str) -> None:
        super().__init__(of=of)
        self.names: list[str] = []

    @property
    def lists(self) -> bool:
        """A list has values."""
        return True

    def read(self, cell: str, row: Mapping[str, Any]) -> list[str]:
        """As many values as the text has words."""
        return one_each(cell, row.get(self.of or ""), "features")

    def written(self, value: Sequence[str]) -> str:
        """Values divided by blanks."""
        return " ".join(value)

    def learn(self, values: Sequence[Sequence[str]]) -> "WordFeatureField":
        """With the values of the training data, in the order of the alphabet."""
        made = copy(self)
        made.names = sorted(set(chain.from_iterable(values)))
        return made

    @property
    def learned(self) -> bool:
        """Whether the values are known."""
        return bool(self.names)

    @property
    def size(self) -> int:
        """How many ids it has."""
        return 1 + len(self.names)

    def encode(
        self,
        values: Sequence[Sequence[str]],
        report: Report,
        fields: Mapping[str, Field],
        rows: Any = None,
    ) -> WordColumn:
        """Ids in the table of all columns; 0 of the table is padding's."""
        first = 1
        for own in fields.values():
            if own is self:
                break
            first += own.size if isinstance(own, WordFeatureField) else 0
        index = {name: first + i for i, name in enumerate(self.names, 1)}
        return WordColumn(RaggedIds.rows([[index.get(one, first) for one in v] for v in values]))

    def state(self) -> dict[str, Any]:
        """The values."""
        return {"values": self.names}

    def restored(self, state: Mapping[str, Any]) -> "WordFeatureField":
        """With the values that were saved."""
        made = copy(self)
        made.names = [composed(str(name)) for name in state["values"]]
        return made
