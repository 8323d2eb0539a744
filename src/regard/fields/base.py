"""A field: one column of the data, and the only place that knows how its values are handled."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar

from regard.data.dataset import Column
from regard.data.text.cells import Bad
from regard.errors import RequestError
from regard.system.plain_json import read_json

__all__ = ["Bad", "Field", "Report"]

Report = Callable[[int, str, str], None]
"""Takes what is wrong with a value: its number, the kind in fixed words, the particulars."""


class Field(ABC):
    """One column of the data.

    A field is a value: `learn` gives a new one that knows the vocabulary, the labels or the
    statistics of the training data. It reads cells, encodes them to arrays, decodes what a model
    put out, is saved as one file of a model folder, and says what a model's constructor must know.

    Args:
        target: it is what is learned, and is not there when a model is used.
        of: the field whose tokens or vocabulary this one refers to.
    """

    kind: ClassVar[str]
    """The name of this kind of field."""
    prefix: ClassVar[str] = "field"
    """Its file in a model folder is `<prefix>.<name>.json`."""
    saved: ClassVar[bool] = True
    """Whether there is anything to save."""
    derived: ClassVar[bool] = False
    """Whether it is computed from other fields (its `sources`), and is read from no column."""
    optional: ClassVar[bool] = False
    """Whether a model folder may be without its file: one that was written before it was there."""
    sources: tuple[str, ...] = ()
    before: "Field | None" = None
    """The field of another model that this one is to begin with, where there is one."""
    extends: bool = False
    """Whether it adds to `before` what is new; else it is `before` as it is."""

    def __init__(self, *, target: bool = False, of: str | None = None) -> None:
        self.target, self.of = target, of

    # -- reading

    @property
    def may_be_empty(self) -> bool:
        """Whether an empty cell of dev or test is a right output, which scores count."""
        return False

    @abstractmethod
    def read(self, cell: str, row: Mapping[str, Any]) -> Any:
        """The value of a cell.

        Args:
            cell: as it stands in the file.
            row: the values of the fields that were read before it.

        Raises:
            Bad: it has none.
        """

    def listed(self, items: Sequence[str]) -> str:
        """The cell of a list, as JSON has them: its items as words, with blanks between them.

        A blank in an item is written "_", as in files of columns; so is an empty item.

        Raises:
            Bad: this field takes no lists.
        """
        if not self.lists:
            raise Bad("a list", "expected a text")
        return " ".join("_".join(item.split()) or "_" for item in items)

    @property
    def lists(self) -> bool:
        """Whether a cell may be a list of texts, as JSON has them; else it must be a text."""
        return False

    def beside(self, file: str) -> "Field":
        """This field for the cells of a data file, where a cell names other files; by default it.

        Args:
            file: the data file.
        """
        return self

    def written(self, value: Any) -> str:
        """A value as text: what a prediction is compared with."""
        return str(value)

    # -- learning

    def learn(self, values: Sequence[Any]) -> "Field":
        """This field with what the values of the training data say; by default nothing."""
        return copy(self)

    def onto(self, before: "Field", *, extends: bool) -> "Field":
        """This field, which will begin with what another model's one knows; see `grown`."""
        made = copy(self)
        made.before, made.extends = before, extends
        return made

    def grown(self, values: Sequence[Any]) -> "Field":
        """What `before` knows, with what is new in the values behind it where it `extends`.

        Raises:
            RequestError: this kind of field cannot add to what it knows.
        """
        assert self.before is not None
        if self.extends and self.before.rows():
            raise RequestError(
                f"train.vocabulary: a field of kind {self.kind!r} cannot be extended; "
                "'keep' or 'replace' it"
            )
        return self.before

    def rows(self) -> Mapping[str, Sequence[str]]:
        """For an argument of a model, as `vocab_size`, the name of each row that it stands for.

        By these names a model that is trained on with other data finds its rows again. Nothing
        where rows have no names.
        """
        return {}

    def pieces(self, names: Sequence[str]) -> list[Sequence[str]]:
        """Of new names, the rows that each is made of, as words are of pieces; by default none."""
        return [()] * len(names)

    def taught(self, values: Sequence[Any]) -> "Field":
        """What `learn` gives, or `grown` where there is something `before`."""
        return self.learn(values) if self.before is None else self.grown(values)

    @property
    def learned(self) -> bool:
        """Whether it knows all that it needs to encode."""
        return True

    def arguments(self) -> dict[str, int]:
        """What a model's constructor is told, as `vocab_size` or `num_classes`."""
        return {}

    # -- encoding

    @abstractmethod
    def encode(
        self, values: Sequence[Any], report: Report, fields: Mapping[str, "Field"], rows: Any = None
    ) -> Column:
        """All values as arrays.

        Args:
            values: as `read` gave them.
            report: told of values that are kept but cannot be learned from.
            fields: all fields of the task, by name.
            rows: the values of all fields, by name, for a field that refers to another.
        """

    def decode(self, value: Any) -> str:
        """What a model put out for one example, as text."""
        return self.written(value)

    # -- saving

    def state(self) -> dict[str, Any]:
        """What was learned, as plain values."""
        return {}

    def restored(self, state: Mapping[str, Any]) -> "Field":
        """This field with what was saved.

        Raises:
            KeyError, TypeError, ValueError: it is not what this kind of field saves.
        """
        return copy(self)

    def dump(self) -> str:
        """The contents of its file."""
        return json.dumps({"kind": self.kind, **self.state()}, ensure_ascii=False, indent=0)

    def load(self, text: str, file: str) -> "Field":
        """This field as its file has it.

        Raises:
            RequestError: the file is not JSON, or of another kind of field.
        """
        try:
            state = read_json(text)
            if not isinstance(state, dict) or state.get("kind") != self.kind:
                raise ValueError(f"expected a field of kind {self.kind!r}")
            return self.restored(state)
        except Exception as error:  # a file may hold anything in the place of anything
            said = " ".join(str(error).split()) or type(error).__name__
            raise RequestError(f"{file} holds no field of kind {self.kind!r}: {said}") from error
