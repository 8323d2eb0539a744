"""What a task has read, and what it was asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from regard.data.dataset import Table
from regard.data.storage.store import Joined, StoredTexts
from regard.data.text.cells import BETWEEN, cells_of
from regard.data.text.input_warnings import warn_unknown
from regard.fields import Bad, Field, TextField
from regard.fields.text import TextColumn
from regard.protocols import UNK
from regard.tasks.prediction import Prediction

__all__ = ["Asked", "asked_of", "row_of", "telling_unknown", "texts_of"]

One = TypeVar("One")


@dataclass(frozen=True)
class Asked:
    """Inputs that a user gave, as a data set of those that can be answered.

    Args:
        dataset: None where none can.
        places: which input each of its examples is.
        refused: a prediction for each input, which says why it has no answer or is empty; replaced
            by the answer where there is one.
        merged: makes the predictions of the inputs, where an input comes to several examples, none
            or many; `places` and `refused` are then of the examples.
    """

    dataset: Any
    places: Sequence[int]
    refused: list[Prediction]
    merged: Callable[[Sequence[Prediction]], list[Prediction]] | None = None

    def answers(self, found: Sequence[Prediction]) -> Sequence[Prediction]:
        """The predictions of the inputs.

        Args:
            found: as `refused`, with answers in the places of those that there are.
        """
        return found if self.merged is None else self.merged(found)


def texts_of(
    fields: Mapping[str, Field], inputs: Sequence[str], values: Mapping[str, Any]
) -> Sequence[str]:
    """The inputs of each example as one text, divided by `|||`; those of a store stay on disk.

    Args:
        values: of each field, one for each example.
    """
    between, read = f" {BETWEEN} ", [values[name] for name in inputs]
    if all(isinstance(one, StoredTexts) for one in read):  # as they were written
        return Joined(read, between)
    return [
        between.join(fields[n].written(v) for n, v in zip(inputs, row, strict=True))
        for row in zip(*read, strict=True)
    ]


def asked_of(texts: Sequence[str], fields: Mapping[str, Field], inputs: Sequence[str]) -> Asked:
    """Inputs as a user writes them, read and encoded: a table of those that can be answered."""
    refused = [Prediction(text, "") for text in texts]
    values: dict[str, list[Any]] = {name: [] for name in inputs}
    places = []
    for place, text in enumerate(texts):
        if not text.strip():
            continue
        try:
            row = row_of(text, inputs, fields)
        except ValueError as error:
            refused[place] = Prediction(text, "", refused=str(error))
            continue
        places.append(place)
        for name in inputs:
            values[name].append(row[name])
    if not places:
        return Asked(None, places, refused)
    values.update({name: [None] * len(places) for name, one in fields.items() if one.derived})
    columns = {
        name: telling_unknown(
            fields[name].encode(own, lambda *_: None, fields, values), own, fields[name]
        )
        for name, own in values.items()
    }
    kept = [texts[i] for i in places]
    return Asked(Table(columns, inputs, kept, [[] for _ in places]), places, refused)


def telling_unknown(column: One, values: Sequence[Any], field: Field) -> One:
    """The column; a warning says how many of its texts are mostly of letters that are unknown."""
    if not isinstance(column, TextColumn) or not isinstance(field, TextField):
        return column
    owners = np.repeat(np.arange(len(column)), column.ids.sizes)
    places = sorted(set(owners[column.ids.flat == UNK].tolist()))  # np.unique loads numpy.ma
    pairs = ((field.written(values[place]), column.ids[place].tolist()) for place in places)
    warn_unknown(pairs, field.tokenizer, len(values))
    return column


def row_of(text: str, inputs: Sequence[str], fields: Mapping[str, Field]) -> dict[str, Any]:
    """The values of one example's inputs.

    Raises:
        ValueError: another number of inputs, or one that cannot be read.
    """
    row: dict[str, Any] = {}
    for name, cell in zip(inputs, cells_of(text, inputs), strict=True):
        try:
            row[name] = fields[name].read(cell, row)
        except Bad as bad:
            raise ValueError(f"{name} is {bad}" if bad.what == "empty" else str(bad)) from None
    return row
