"""Lines of text, JSON or TSV: which input each holds, and which line its prediction becomes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from regard.data.files.lines import Line
from regard.data.files.packing import Unreadable
from regard.errors import RequestError
from regard.fields.sets import sides
from regard.system.plain_json import plain_value, read_json
from regard.tasks import Prediction, Task
from regard.tasks.inputs import BETWEEN

__all__ = ["FORMS", "JSONL", "TEXT", "TSV", "Form", "Item", "form_of"]


class Item(NamedTuple):
    """A line as it is answered: its input, why it is refused (""), and what it was read as.

    `kept` is what its output line repeats: the keys of an object, or the cells of a row. `at` is
    the cell that the output takes; None: it is one more.
    """

    text: str
    refused: str = ""
    kept: Any = None
    heading: bool = False
    at: int | None = None


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
    """

    inputs: Sequence[str]
    columns: Mapping[str, str | int]
    usual: Mapping[str, str | int]
    as_json: bool = False
    align: bool = False
    output: str = ""

    def items(self, lines: Iterator[Line]) -> Iterator[Item]:
        """What each line holds.

        Raises:
            Unreadable: the file has no such column.
        """
        for line in lines:
            yield Item(line.text, line.refused)

    def written(self, item: Item, found: Prediction | None) -> str:
        """The line of an item, as `regard predict` writes it; of a bad one, its place."""
        if self.as_json:
            return _object({}, item, found)
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
            there = (way for way in ways if all(column in known for column in way))
            wanted = usual if counted else next(there, [*self.inputs])
        for column in wanted:
            fits = counted and 1 <= column <= len(known) if isinstance(column, int) else (
                column in known
            )  # fmt: skip
            if not fits:
                raise Unreadable(
                    f"there is no {column!r} among {', '.join(map(repr, known[:20])) or 'nothing'}"
                    f"; --columns {self.inputs[0]}=NAME says what an input is under"
                )
        return wanted


class _Jsonl(Form):
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
                yield self._item(value)
            except (ValueError, Unreadable) as error:
                said = f"no JSON: {error}" if isinstance(error, ValueError) else str(error)
                yield Item("", said, {})

    def _item(self, value: Any) -> Item:
        if isinstance(value, str):
            return Item(value, "", {"input": value} if self.output else {})
        if not isinstance(value, dict):
            return Item("", "expected an object or a text", {})
        places = self.places([*value])
        kept = {key: own for key, own in value.items() if self.output or key not in places}
        cells = [value[str(place)] for place in places]
        for place, cell in zip(places, cells, strict=True):
            if not isinstance(cell, str):
                return Item("", f"{place!r} is no text", kept)
        return Item(f" {BETWEEN} ".join(cells), "", kept)

    def written(self, item: Item, found: Prediction | None) -> str:
        if not self.output:
            return _object(item.kept or {}, item, found)
        told = {self.output: _text(found, self.align)} if found and not found.refused else {}
        return json.dumps(plain_value({self.output: "", **item.kept, **told}), ensure_ascii=False)


class _Tsv(Form):
    """Rows under a heading line; the output is one more column, or takes the place of one.

    Where all columns are numbers, there is no heading line.
    """

    def items(self, lines: Iterator[Line]) -> Iterator[Item]:
        known: list[str] = []
        places: list[int] = []
        at: int | None = None
        named = self.columns.values() or [self.usual.get(name, name) for name in self.inputs]
        counted = all(isinstance(column, int) for column in named)
        for line in lines:
            cells = line.text.split("\t")
            if not places:
                if line.refused:
                    raise Unreadable(f"its first line is refused: {line.refused}")
                given = self.places(cells, counted)
                places = [p - 1 if isinstance(p, int) else cells.index(p) for p in given]
                known = cells
                at = self._place(known, counted)
                if not counted:
                    yield Item("", "", cells, True, at)
                    continue
            if line.refused or len(cells) != len(known):
                wrong = f"it has {len(cells)} of {len(known)} columns"
                yield Item("", line.refused or wrong, cells, False, at)
                continue
            yield Item(f" {BETWEEN} ".join(cells[p] for p in places), "", cells, False, at)

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
        text = (self.output or "output") if item.heading else _text(found, self.align)
        if item.at is None:
            cells.append(text.replace("\t", " "))
        elif found and not found.refused:
            cells[item.at] = text.replace("\t", " ")
        return "\t".join(cells)


def form_of(
    kind: str,
    task: Task,
    config: Mapping[str, Any],
    columns: Mapping[str, str | int],
    *,
    as_json: bool,
    align: bool,
    output: str = "",
) -> Form:
    """How the lines of a shard are read and written.

    Args:
        kind: `text`, `jsonl` or `tsv`.
        config: of the model folder.

    Raises:
        RequestError: an input of the task is several lines, or lines of text should have columns.
    """
    inputs = sides(task.fields())[0]
    usual = {**task.columns, **config.get("data", {}).get("columns", {})}
    made = {JSONL: _Jsonl, TSV: _Tsv}.get(kind, Form)
    if made is Form and type(task).join is not Task.join:
        raise RequestError(
            f"an input of the task {task.name} is several lines; expected JSON lines, each with "
            'such a text under "input"'
        )
    if made is Form and output:
        raise RequestError(
            f"--output-column {output}: lines of text have no columns; expected JSON lines or TSV"
        )
    return made(inputs, columns, usual, as_json, align, output)


def _text(found: Prediction | None, align: bool) -> str:
    text = found.line if found else ""
    links = (found.alignment or ()) if found else ()
    pharaoh = " ".join(f"{i}-{j}" for i, j in links)
    return f"{text} ||| {pharaoh}" if align and text else text


NOTHING: dict[str, Any] = {
    "output": "", "score": None, "log_prob": None, "tokens": [], "alternatives": [],
}  # fmt: skip


def _object(kept: Mapping[str, Any], item: Item, found: Prediction | None) -> str:
    made = found.as_json() if found else {"input": item.text, **NOTHING}
    refused = item.refused or (found.refused if found else "")
    whole = {**kept, **made, **({"refused": refused} if refused else {})}
    return json.dumps(plain_value(whole), ensure_ascii=False)


JSONL, TSV, TEXT = "jsonl", "tsv", "text"


FORMS = {".jsonl": JSONL, ".ndjson": JSONL, ".tsv": TSV}
