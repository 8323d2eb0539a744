"""Files of inputs: which input each row holds, and which line its prediction becomes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.files.delimited import SAMPLE, TSV, Dialect, detected, records, written
from regard.data.files.lines import Line
from regard.data.files.packing import Unreadable
from regard.data.files.records import cells_of
from regard.data.files.registry import format_of
from regard.data.text.cells import BETWEEN
from regard.data.text.normal_form import composed
from regard.errors import RequestError
from regard.fields import Field
from regard.fields.sets import sides
from regard.system.plain_json import plain_value, read_json
from regard.tasks import Prediction, Task

__all__ = ["TEXT", "Form", "Item", "form_of", "kind_of"]


class Item(NamedTuple):
    """A line as it is answered: its input, why it is refused (""), and what it was read as.

    `kept` is what its output line repeats: the keys of an object, or the cells of a row. `at` is
    the cell that the output takes; None: it is one more. `dialect` is how cells are divided.
    """

    text: str
    refused: str = ""
    kept: Any = None
    heading: bool = False
    at: int | None = None
    dialect: Dialect = TSV


@dataclass(frozen=True)
class Form:
    """Lines of text: an input each.

    Args:
        inputs: of the task.
        columns: which key or heading each is under, where it was said.
        usual: the same, where the folder says it.
        as_json: outputs are JSON.
        align: outputs have links.
        output: the key or column of outputs; "" where it was not said.
        fields: of the task, which say what a list is.
        dialect: of the CSV files of the training.
    """

    inputs: Sequence[str]
    columns: Mapping[str, str | int]
    usual: Mapping[str, str | int]
    as_json: bool = False
    align: bool = False
    output: str = ""
    fields: Mapping[str, Field] = field(default_factory=dict)
    dialect: Mapping[str, str] = field(default_factory=dict)

    def items(self, lines: Iterator[Line]) -> Iterator[Item]:
        """What each line holds.

        Raises:
            Unreadable: the file has no such column.
        """
        for line in lines:
            yield Item(line.text, line.refused)

    def item(self, value: Any) -> Item:
        """What a value of JSON holds."""
        return Item(value) if isinstance(value, str) else Item("", "expected a text")

    def written(self, item: Item, found: Prediction | None) -> str:
        """The line of an item, as `regard predict` writes it; of a bad one, its place."""
        if self.as_json:
            return _object({}, item, found)
        return _text(found, self.align)

    def value(self, found: Prediction | None) -> str:
        """What a column of outputs has; in the place of a named one what training reads there."""
        if self.output and found and not self.align:
            return " ".join(found.output.splitlines())
        return _text(found, self.align)

    def places(self, known: Sequence[str], counted: bool = False) -> list[str | int]:
        """The keys or columns of the inputs, among those that are there.

        Args:
            counted: a number is the number of a column, from 1.

        Raises:
            Unreadable: naming those that are there.
        """
        if "input" in self.columns:
            wanted: list[str | int] = [self.columns["input"]]
        elif self.columns:
            wanted = [self.columns.get(name, name) for name in self.inputs]
        else:
            usual = [self.usual.get(name, name) for name in self.inputs]
            ways: list[list[str | int]] = [["input"], [*self.inputs], usual, ["text"]]
            plain = {*known, *map(composed, known)}
            there = (way for way in ways if all(column in plain for column in way))
            wanted = usual if counted else next(there, [*self.inputs])
        spelled = {composed(name): name for name in reversed(known)}  # a file may be in NFD
        wanted = [spelled.get(composed(c), c) if isinstance(c, str) else c for c in wanted]
        for column in wanted:
            fits = (
                counted and 1 <= column <= len(known)
                if isinstance(column, int)
                else (column in known)
            )
            if not fits:
                raise Unreadable(
                    f"there is no {column!r} among {', '.join(map(repr, known[:20])) or 'nothing'}"
                    f"; --columns {self.inputs[0]}=NAME says what an input is under, or its "
                    "number where there is no heading line"
                )
        return wanted


class _Objects(Form):
    """Objects: keys that are no input are kept, and those of the prediction are added.

    Where the key of outputs was said, an object stays as it is but for that key.
    """

    def items(self, lines: Iterator[Line]) -> Iterator[Item]:
        for line in lines:
            if line.refused or not line.text.strip():
                yield Item(line.text, line.refused or "an empty line; expected an object", {})
                continue
            try:
                value = read_json(line.text)
            except ValueError as error:
                yield Item("", f"no JSON: {error}", {})
                continue
            yield self.item(value)

    def item(self, value: Any) -> Item:
        """What an object holds, or a text."""
        try:
            return self._item(value)
        except Unreadable as error:
            return Item("", str(error), {})

    def _item(self, value: Any) -> Item:
        if isinstance(value, str):
            return Item(value, "", {"input": value} if self.output else {})
        if not isinstance(value, dict):
            return Item("", "expected an object or a text", {})
        places = self.places([*value])
        kept = {key: own for key, own in value.items() if self.output or key not in places}
        named = dict(zip(self.inputs, places, strict=False))
        several = len(places) == len(self.inputs)  # else all inputs are one text
        lists = [name for name in named if several and self.fields[name].lists]
        cells, wrong = cells_of(value, named, lists)
        if wrong:
            return Item("", wrong, kept)
        texts = [c if isinstance(c, str) else self.fields[n].listed(c) for n, c in cells.items()]
        return Item(f" {BETWEEN} ".join(texts), "", kept)

    def written(self, item: Item, found: Prediction | None) -> str:
        if not self.output:
            return _object(item.kept or {}, item, found)
        told = {self.output: self.value(found)} if found and not found.refused else {}
        return json.dumps(plain_value({self.output: "", **item.kept, **told}), ensure_ascii=False)


class _Cells(Form):
    """Rows under a heading line; the output is one more column, or takes the place of one.

    Where all columns are numbers, there is no heading line.
    """

    def divided(self, lines: Iterator[Line]) -> tuple[Dialect, Iterator[Line]]:
        """How cells are divided, and the lines from the first on."""
        return TSV, lines

    def items(self, lines: Iterator[Line]) -> Iterator[Item]:
        known: list[str] = []
        places: list[int] = []
        at: int | None = None
        named = self.columns.values() or [self.usual.get(name, name) for name in self.inputs]
        counted = all(isinstance(column, int) for column in named)
        dialect, lines = self.divided(lines)
        for _, cells, what, detail in records(lines, dialect):
            refused = what and f"{what} ({detail})" if detail else what
            if not places:
                if refused:
                    raise Unreadable(f"its first line is refused: {refused}")
                given = self.places(cells, counted)
                places = [p - 1 if isinstance(p, int) else cells.index(p) for p in given]
                known = cells
                at = self._place(known, counted)
                if not counted:
                    yield Item("", "", cells, True, at, dialect)
                    continue
            more = any(cell.strip() for cell in cells[len(known) :])
            if refused or more or len(cells) <= max(places):
                wrong = f"it has {len(cells)} of {len(known)} columns"
                yield Item("", refused or wrong, cells, False, at, dialect)
                continue
            cells = [*cells, *[""] * (len(known) - len(cells))][: len(known)]
            text = f" {BETWEEN} ".join(cells[p] for p in places)
            yield Item(text, "", cells, False, at, dialect)

    def _place(self, known: Sequence[str], counted: bool) -> int | None:
        """The column that outputs take; None where it is a new one."""
        if counted and self.output:
            if not (self.output.isdecimal() and 1 <= int(self.output) <= len(known)):
                raise Unreadable(
                    f"--output-column: expected a number of 1 to {len(known)}, as --columns has "
                    f"numbers, got {self.output!r}"
                )
            return int(self.output) - 1
        return [*known].index(self.output) if self.output in known else None

    def written(self, item: Item, found: Prediction | None) -> str:
        cells = [*item.kept]
        text = (self.output or "output") if item.heading else self.value(found)
        text = text if item.dialect.quote else text.replace("\t", " ")
        if item.at is None:
            cells.append(text)
        elif found and not found.refused:
            cells[item.at] = text
        return written(cells, item.dialect)


class _Csv(_Cells):
    """As TSV, with the delimiter and the quotes that the file has."""

    def divided(self, lines: Iterator[Line]) -> tuple[Dialect, Iterator[Line]]:
        """What the first lines tell."""
        first = list(islice(lines, SAMPLE))
        found = detected([line.text for line in first if not line.refused], self.dialect)
        return found, chain(first, lines)


def form_of(
    kind: str,
    task: Task,
    config: Mapping[str, Any],
    columns: Mapping[str, str | int],
    *,
    as_json: bool,
    align: bool,
    output: str = "",
    fields: Mapping[str, Field] | None = None,
) -> Form:
    """How the rows of a file of inputs are read and written.

    Args:
        kind: `text`, `jsonl`, `json`, `tsv` or `csv`.
        config: of the model folder.
        fields: of a loaded model; those of the task where not given.

    Raises:
        RequestError: an input of the task is several lines, or lines of text should have columns.
    """
    inputs = sides(task.fields())[0]
    usual = {**task.columns, **config.get("data", {}).get("columns", {})}
    made = {"jsonl": _Objects, "json": _Objects, "tsv": _Cells, "csv": _Csv}.get(kind, Form)
    if made is Form and type(task).join is not Task.join:
        raise RequestError(
            f"an input of the task {task.name} is several lines; expected JSON lines, each with "
            'such a text under "input"'
        )
    if made is Form and output:
        raise RequestError(
            f"--output-column {output}: lines of text have no columns; expected JSON lines or TSV"
        )
    dialect = dict(config.get("data", {}).get("csv") or {})
    return made(inputs, columns, usual, as_json, align, output, fields or task.fields(), dialect)


def _text(found: Prediction | None, align: bool) -> str:
    text = found.line if found else ""
    links = (found.alignment or ()) if found else ()
    pharaoh = " ".join(f"{i}-{j}" for i, j in links)
    return f"{text} ||| {pharaoh}" if align and text else text


NOTHING: dict[str, Any] = {
    "output": "",
    "score": None,
    "log_prob": None,
    "tokens": [],
    "alternatives": [],
}


def _object(kept: Mapping[str, Any], item: Item, found: Prediction | None) -> str:
    made = found.as_json() if found else {"input": item.text, **NOTHING}
    refused = item.refused or (found.refused if found else "")
    whole = {**kept, **made, **({"refused": refused} if refused else {})}
    return json.dumps(plain_value(whole), ensure_ascii=False)


TEXT = "text"
"""Lines of text, an input each."""


def kind_of(path: str | Path) -> str:
    """What a file of inputs has: `TEXT`, or the name of a format.

    Example:
        >>> kind_of("a.txt"), kind_of("a.csv.gz"), kind_of("corpus.de")
        ('text', 'csv', 'text')
    """
    found = format_of(path, {".txt": TEXT})
    return TEXT if found == "moses" or str(path) == "-" else found
