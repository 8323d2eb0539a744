"""From a recipe's `data:` section to examples: files, rows, fields, what is left out and why."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.batch import some
from regard.data.files import registry
from regard.data.problems import Problems, Silent
from regard.data.text.normal_form import composed
from regard.datasets import dividing, section
from regard.datasets.section import Config, refuse_unknown
from regard.errors import RequestError
from regard.fields import Bad, Field

__all__ = ["Rows", "each", "read", "refuse_unknown"]

log = logging.getLogger(__name__)

_WHERE = "where "
"""What stands before the name of a column that chooses rows, where fields are named."""

Values = Mapping[str, Any]
Examples = Callable[..., Iterable[tuple[Values, list[str]]]]


@dataclass
class Rows:
    """Examples as read, with where they stand: number n came from line `lines[n]` of `file`.

    Args:
        values: of each field.
        references: every right output of each example, the trained one first.
        extras: what a task has read beside the fields, by name.
    """

    file: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    references: Sequence[list[str]] = field(default_factory=list)
    lines: Any = field(default_factory=list)
    extras: dict[str, Sequence[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.lines)

    def pick(self, at: Sequence[int]) -> "Rows":
        """Some of the examples."""
        return Rows(
            self.file,
            {name: [several[i] for i in at] for name, several in self.values.items()},
            [self.references[i] for i in at],
            [self.lines[i] for i in at],
            {name: [several[i] for i in at] for name, several in self.extras.items()},
        )


def read(
    path: "Path | Mapping[str, Path]",
    config: Config,
    examples: Examples,
    split: str,
    problems: Problems,
) -> Rows:
    """Read one split; rows with a cell that cannot be read are reported and left out.

    Args:
        examples: what a row gives: pairs of the values of each field and the right outputs.
    """
    file, lines = "" if isinstance(path, Mapping) else str(path), list[int]()
    values: dict[str, list[Any]] = {name: [] for name in config.fields}
    references: list[list[str]] = []
    for own, line, example, right in each(path, config, examples, split, problems):
        file = own
        for name in config.fields:
            values[name].append(example[name])
        references.append(right)
        lines.append(line)
    problems.report(file)
    found, limit = Rows(file, values, references, lines), config.limit.get(split)
    return found.pick(some(len(found), limit)) if limit is not None else found


def each(
    path: "Path | Mapping[str, Path]",
    config: Config,
    examples: Examples,
    split: str,
    problems: Problems,
    *,
    one_of_many: bool = False,
) -> Iterator[tuple[str, int, Values, list[str]]]:
    """The examples of one split as they are read: (file, line, values of fields, right outputs).

    Args:
        one_of_many: what `data.where` asks for may be in other files.

    Raises:
        RequestError: there are rows, and none of them is one that `data.where` asks for.
    """
    asked = config.where[split]
    columns = {**config.columns, **{_WHERE + column: column for column in asked}}
    lists = [name for name, one in config.fields.items() if one.lists]
    mine = dividing.divided(path, config).lines.get(split) if config.split else None
    reading = Silent() if mine is not None and split != "train" else problems  # told of once
    rows = registry.read(path, columns, config.format, config.header, reading, lists, config.csv)
    fields: Mapping[str, Field] = {}
    file, others, count = "", 0, 0
    for row in rows:
        if not fields or file != row.file:
            fields = {name: one.beside(row.file) for name, one in config.fields.items()}
        file = row.file
        if mine is not None and row.line not in mine:
            continue
        if any(composed(row.fields[_WHERE + c].strip()) not in own for c, own in asked.items()):
            others += 1
            continue
        values: dict[str, Any] = {}
        for name, one in fields.items():
            try:
                cell = row.fields.get(name, "")
                values[name] = one.read(cell if isinstance(cell, str) else one.listed(cell), values)
            except Bad as bad:
                if bad.what == "empty" and split != "train" and one.may_be_empty:
                    values[name] = ""
                    continue
                detail = bad.detail or (f"no {name}" if bad.what == "empty" else name)
                problems.add(row.file, row.line, bad.what, detail)
                break
        else:
            for example, right in examples(values, training=split == "train"):
                count += 1
                yield row.file, row.line, example, right
    if others and not count and not one_of_many:
        raise RequestError(
            f"{file}: none of {others} rows is one that data.where asks for, {section.said(asked)}"
        )
