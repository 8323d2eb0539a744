"""Columns of any field as the arrays that a store keeps: rows of ids, and rows of numbers."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from numpy.typing import NDArray

from regard.data.dataset import Column
from regard.data.problems import Silent
from regard.data.ragged import RaggedIds
from regard.data.storage.building import Example
from regard.data.storage.store import Store
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.fields import Field, TextField
from regard.fields.columns import ArrayColumn
from regard.fields.copied import CopiedColumn
from regard.fields.text import TextColumn

__all__ = ["Others"]

TRIED = 64
"""Examples that are encoded at the start, to know what their columns are."""

Arrays = tuple[dict[str, RaggedIds], dict[str, NDArray[Any]]]


class Others:
    """The fields of a task: plain texts, which other processes encode, and the others.

    Args:
        fields: learned.
        examples: gives the examples from the first on: (file, line, values, right outputs).

    Raises:
        RequestError: a column is neither of ids nor of numbers.
    """

    def __init__(self, fields: Mapping[str, Field], examples: Callable[..., Iterator[Any]]) -> None:
        self.fields = dict(fields)
        self.tokenizers: dict[str, Tokenizer] = {
            name: own.tokenizer
            for name, own in fields.items()
            if type(own) is TextField and not (own.sentences or own.characters)
        }
        some = [(one[1], one[2]) for one in islice(examples(Silent()), TRIED)]
        self.kinds = {
            name: type(column)
            for name, column in self._encoded(some, lambda *_: None).items()
            if _arrays(name, column)
        }

    def arrays(self, examples: list[Example], report: Callable[[int, str, str], None]) -> Arrays:
        """What the other fields are of some examples.

        Args:
            report: told of values that nothing is learned from: line, kind, particulars.
        """
        ragged: dict[str, RaggedIds] = {}
        dense: dict[str, NDArray[Any]] = {}
        for name, column in self._encoded(examples, report).items():
            more, numbers = _arrays(name, column)
            ragged.update(more)
            dense.update(numbers)
        return ragged, dense

    def columns(self, store: Store) -> dict[str, Column]:
        """All columns, from their store."""
        found: dict[str, Column] = {}
        for name, own in self.fields.items():
            if self.kinds.get(name) is ArrayColumn:
                found[name] = ArrayColumn(
                    store.dense[f"{name}.values"], store.dense[f"{name}.known"]
                )
            elif self.kinds.get(name) is CopiedColumn:
                found[name] = CopiedColumn(store.ids[name], store.ids[f"{name}.copies"])
            else:
                assert isinstance(own, TextField)
                found[name] = TextColumn(store.ids[name], end=own.end)
        return found

    def _encoded(
        self, examples: list[Example], report: Callable[[int, str, str], None]
    ) -> dict[str, Column]:
        values = {name: [one[name] for _, one in examples] for name in self.fields}

        def told(name: str) -> Callable[[int, str, str], None]:
            return lambda at, what, detail: report(examples[at][0], what, f"{name}: {detail}")

        return {
            name: own.encode(values[name], told(name), self.fields, values)
            for name, own in self.fields.items()
            if name not in self.tokenizers
        }


def _arrays(name: str, column: Column) -> Arrays:
    """The arrays of a column by their names."""
    if isinstance(column, ArrayColumn):
        return {}, {f"{name}.values": column.values, f"{name}.known": column.known}
    if type(column) is CopiedColumn:
        return {name: column.ids, f"{name}.copies": column.copies}, {}
    if type(column) is TextColumn and column.letters is None:
        return {name: column.ids}, {}
    raise RequestError(
        f"data.store keeps texts, labels and numbers; the field {name!r} is read otherwise: leave "
        "data.store out"
    )
