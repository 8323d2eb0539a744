"""From a recipe's `data:` section to examples: files, rows, fields, what is left out and why."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data import formats, sources
from regard.data.batch import some
from regard.data.dataset import Column
from regard.data.problems import Problems
from regard.errors import RequestError
from regard.fields import Bad, Field, TextField
from regard.fields.pretrained import Pretrained
from regard.fields.sentence_columns import DocumentColumn
from regard.fields.text import TextColumn, own_texts, with_vocabularies
from regard.tasks import _where
from regard.tasks._section import refuse_unknown, tokenizers

__all__ = [
    "TYPES",
    "Config",
    "Rows",
    "each",
    "encode",
    "encoded",
    "learn",
    "read",
    "refuse_unknown",
    "types",
]

log = logging.getLogger(__name__)

_KEYS = (
    "path", "columns", "tokenizer", "max_length", "header", "format", "limit", "where", "vectors",
    "store", "sample", "stream",
)  # fmt: skip
_WHERE = "where "
"""What stands before the name of a column that chooses rows, where fields are named."""
_OF_ONE = {"kind": str, "vocab_size": int, "lowercase": bool}
TYPES: Mapping[str, Any] = {
    "path": str,
    **dict.fromkeys(sources.SPLITS, str | dict[str, str]),
    "columns": dict[str, str | int],
    "tokenizer": {**_OF_ONE, "shared": bool, "min_count": int},
    "max_length": int,
    "header": bool,
    "format": str,
    "limit": int | dict[str, int],
    "where": _where.TYPE,
    "store": str,
    "sample": int,
    "stream": {"files": str | dict[str, str], "buffer": int, "lanes": int},
}
"""Of each key of a `data:` section its type."""

Values = Mapping[str, Any]
Examples = Callable[..., Iterable[tuple[Values, list[str]]]]


def types(fields: Mapping[str, Field]) -> Mapping[str, Any]:
    """Of each key of a `data:` section its type, for a task with these fields."""
    texts = {name: _OF_ONE for name, own in fields.items() if isinstance(own, TextField)}
    return {**TYPES, "tokenizer": {**TYPES["tokenizer"], **texts}}


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


@dataclass(frozen=True)
class Config:
    """A recipe's `data:` section, checked.

    Args:
        path: a folder with `train.*`, `dev.*`, `test.*`, or one file (see `files`).
        given: explicit files of single splits: a path, or one file for each field (Moses).
        columns: for each field the column's name or its number from 1.
        fields: the task's, as the section wants their tokenizers.
        shared: one vocabulary for all texts.
        max_length: longer training examples, in tokens of any text, are left out.
        limit: at most so many rows of a split, spread evenly over it.
        where: of each split, only rows whose column (not a field) has one of these values.
        store: the folder that keeps the ids of training splits on disk; "": they are in memory. See
            `regard.tasks.stored`.
        sample: rows of a stored or streamed split that its fields are learned from.
        stream: the files of the training split that are read a buffer at a time, where it is. See
            `regard.tasks.streamed`.
    """

    path: str | None
    given: Mapping[str, Any]
    columns: dict[str, str | int]
    header: bool
    format: str | None
    fields: dict[str, Field]
    shared: bool
    max_length: int
    limit: dict[str, int]
    where: _where.Where
    store: str = ""
    sample: int = 200_000
    stream: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        config: Mapping[str, Any],
        fields: Mapping[str, Field],
        columns: Mapping[str, str | int] | None = None,
        header: bool = True,
        longest: int = 256,
    ) -> "Config":
        """Check the keys of a `data:` section and fill in what it does not say.

        Args:
            fields: the task's.
            columns: of fields whose column is not called as they are.
            header: whether TSV files have a heading line where the section does not say.
            longest: `max_length` where the section does not say.

        Raises:
            RequestError: an unknown key, field or split, with the nearest one.
        """
        refuse_unknown("data", config, (*_KEYS, *sources.SPLITS))
        named = config.get("columns") or {}
        read = tuple(name for name, one in fields.items() if not one.derived)
        refuse_unknown("data.columns", named, read)
        limit = config.get("limit")
        limits = {"train": limit} if isinstance(limit, int) else dict(limit or {})
        refuse_unknown("data.limit", limits, tuple(sources.SPLITS))
        stream = dict(config.get("stream") or {})
        refuse_unknown("data.stream", stream, tuple(TYPES["stream"]))
        if stream.get("files") and config.get("train"):
            raise RequestError("data.train and data.stream.files: leave out one of the two")
        given = any(config.get(split) for split in ("path", *sources.SPLITS))
        if not given and not stream.get("files"):
            raise RequestError("data.path is not given: a folder, or a file (or data.train, …)")
        configured, shared = tokenizers(config.get("tokenizer") or {}, fields)
        if told := config.get("vectors"):
            for name, one in own_texts(configured).items():
                configured[name] = one.starting_from(Pretrained.of(told))
        return cls(
            path=config.get("path"),
            given={s: config[s] for s in sources.SPLITS if config.get(s)},
            columns={**{name: name for name in read}, **(columns or {}), **named},
            header=config.get("header", header),
            format=config.get("format"),
            fields=configured,
            shared=shared,
            max_length=config.get("max_length") or longest,
            limit=limits,
            where=_where.wanted(config.get("where")),
            store=config.get("store") or "",
            sample=config.get("sample") or cls.sample,
            stream=stream,
        )

    def files(self, splits: Sequence[str]) -> dict[str, Any]:
        """The file of each split that is asked for and there is.

        A folder is searched for them. A path to one file is that file for the one split asked for,
        or the training file where several are.

        Raises:
            RequestError: nothing is there, or none of the splits.
        """
        refuse_unknown("splits", dict.fromkeys(splits), tuple(sources.SPLITS))
        found: dict[str, Any] = {}
        if self.path is not None:
            place = sources.find(self.path)
            if place.is_dir():
                found.update(sources.splits(place))
            else:
                found[splits[0] if len(splits) == 1 else "train"] = place
        for split, file in self.given.items():
            if isinstance(file, Mapping):
                found[split] = {name: sources.find(one) for name, one in file.items()}
            else:
                found[split] = sources.find(file)
        there = {split: found[split] for split in splits if split in found}
        if not there:
            raise RequestError(
                f"{self.path or 'data'} has no {' or '.join(splits)} split; "
                f"it has {', '.join(found)}"
            )
        return there

    def has_header(self, split: str) -> bool:
        """Whether the first line of a split's file names its columns."""
        file = self.files([split])[split]
        return self.header and (self.format or formats.format_of(file)) == "tsv"


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
    lists = {n: one.separator for n, one in config.fields.items() if one.separator}
    rows = formats.read(path, columns, config.format, config.header, problems, lists)
    fields: Mapping[str, Field] = {}
    file, others, count = "", 0, 0
    for row in rows:
        if not fields or file != row.file:
            fields = {name: one.beside(row.file) for name, one in config.fields.items()}
        file = row.file
        if any(row.fields[_WHERE + c].strip() not in own for c, own in asked.items()):
            others += 1
            continue
        values: dict[str, Any] = {}
        for name, one in fields.items():
            try:
                values[name] = one.read(row.fields.get(name, ""), values)
            except Bad as bad:
                detail = bad.detail or (f"no {name}" if bad.what == "empty" else name)
                problems.add(row.file, row.line, bad.what, detail)
                break
        else:
            for example, right in examples(values, training=split == "train"):
                count += 1
                yield row.file, row.line, example, right
    if others and not count and not one_of_many:
        raise RequestError(
            f"{file}: none of {others} rows is one that data.where asks for, {_where.said(asked)}"
        )


def learned_of(config: Config) -> str:
    """What is learned from the training split, in words."""
    texts = [one for one in config.fields.values() if isinstance(one, TextField)]
    return "the tokenizers" if len(texts) == len(config.fields) else "the fields"


def learn(config: Config, rows: Rows) -> dict[str, Field]:
    """The fields, with what the training split says."""
    found = dict(config.fields)
    texts = own_texts(found)
    if config.shared and texts:
        first = texts[next(iter(texts))]
        every = [texts[name].written(value) for name in texts for value in rows.values[name]]
        one = first.taught(every)
        assert isinstance(one, TextField)
        found.update({name: own.sharing(one) for name, own in texts.items()})
    for name, own in found.items():
        if not isinstance(own, TextField) or (own.of is None and not own.learned):
            found[name] = own.taught(
                list(zip(*(rows.values[source] for source in own.sources), strict=True))
                if own.derived
                else rows.values[name]
            )
    return with_vocabularies(found)


def encode(
    rows: Rows,
    config: Config,
    fields: Mapping[str, Field],
    split: str,
    problems: Problems,
) -> tuple[dict[str, Column], Rows]:
    """Turn rows into columns; in training, those longer than `max_length` are left out.

    Dev and test stay whole: a score is of every example, however long.

    Raises:
        RequestError: nothing is left.
    """
    columns, rows = encoded(rows, config, fields, split, problems)
    if not len(rows):
        told = f": {dict(problems.counts)} lines were left out" if len(problems) else ""
        raise RequestError(f"{rows.file or split} has no usable line{told}")
    return columns, rows


def encoded(
    rows: Rows,
    config: Config,
    fields: Mapping[str, Field],
    split: str,
    problems: Problems,
) -> tuple[dict[str, Column], Rows]:
    """As `encode`, of which nothing may be left."""
    columns: dict[str, Column] = {}
    for name, own in fields.items():

        def report(at: int, what: str, detail: str, name: str = name) -> None:
            problems.add(rows.file, rows.lines[at], what, f"{name}: {detail}", stays=True)

        columns[name] = own.encode(rows.values[name], report, fields, rows.values)
    texts = [one for one in columns.values() if isinstance(one, (TextColumn, DocumentColumn))]
    sizes = [one.tokens for one in texts]
    if sizes:
        columns, rows = _fitting(columns, rows, np.stack(sizes, 1), config, split, problems)
    problems.report(rows.file)
    return columns, rows


def _fitting(
    columns: dict[str, Column],
    rows: Rows,
    sizes: NDArray[np.int64],
    config: Config,
    split: str,
    problems: Problems,
) -> tuple[dict[str, Column], Rows]:
    """What has a token of every text, and in training is not too long."""
    longest: NDArray[np.int64] = sizes.max(1) + 1
    over = longest > config.max_length if split == "train" else np.zeros(len(longest), bool)
    # A text of control characters alone may come to no token at all.
    void = (sizes == 0).any(1)
    for i in np.flatnonzero(over | void).tolist():
        if void[i]:
            problems.add(rows.file, rows.lines[i], "empty", "no tokens")
        else:
            detail = f"{longest[i]} tokens, at most {config.max_length}"
            problems.add(rows.file, rows.lines[i], "too long", detail)
    kept = np.flatnonzero(~(over | void))
    if len(kept) == len(longest):
        return columns, rows
    return {name: one.take(kept) for name, one in columns.items()}, rows.pick(kept.tolist())
