"""The `data:` section: its keys, types and selections of rows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.data import sources
from regard.data.files.delimited import dialect_of
from regard.data.files.registry import format_of
from regard.data.sources import SPLITS
from regard.data.text.normal_form import composed
from regard.datasets.dividing import Shares, divided, shares_of
from regard.datasets.split_files import split_files
from regard.errors import RequestError, nearest
from regard.fields import Field, KeyField, TextField
from regard.fields.contextual import vectors_of
from regard.fields.text import own_texts

__all__ = [
    "TOKENIZER",
    "TYPE",
    "TYPES",
    "Config",
    "Where",
    "limits_of",
    "refuse_unknown",
    "said",
    "tokenizers",
    "types",
    "wanted",
]


TYPE = dict[str, str | int | list[str | int] | dict[str, str | int | list[str | int]]]


Where = Mapping[str, Mapping[str, frozenset[str]]]
"""Of each split the columns that choose its rows, with the values of rows that are read."""


def wanted(section: Mapping[str, Any] | None) -> Where:
    """What `data.where` says of each split.

    Args:
        section: of each column a value, several, or a mapping with those of single splits: a split
            that it lacks is read whole.

    Raises:
        RequestError: a mapping names what is no split.

    Example:
        >>> asked = wanted({"speaker": {"train": ["ann", "bob"], "test": "eve"}})
        >>> {split: [*map(sorted, asked[split].values())] for split in asked}
        {'train': [['ann', 'bob']], 'dev': [], 'test': [['eve']]}
    """
    found: dict[str, dict[str, frozenset[str]]] = {split: {} for split in SPLITS}
    for column, told in (section or {}).items():
        each = told if isinstance(told, Mapping) else dict.fromkeys(SPLITS, told)
        for split, one in each.items():
            if split not in found:
                raise RequestError(
                    f"data.where.{column}: no split {split!r}: {nearest(str(split), SPLITS)}"
                )
            several = one if isinstance(one, list) else [one]
            found[split][column] = frozenset(composed(str(value)) for value in several)
    return found


def said(columns: Mapping[str, frozenset[str]]) -> str:
    """The rows that are asked for, in words.

    Example:
        >>> said({"speaker": frozenset({"eve", "bob"})})
        'speaker: bob or eve'
    """
    return " and ".join(f"{column}: {' or '.join(sorted(one))}" for column, one in columns.items())


TOKENIZER = ("kind", "vocab_size", "lowercase", "min_count", "segmenter", "fold")


def refuse_unknown(where: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse keys that a section does not have, with the nearest one that it has."""
    for key in given:
        if key not in known:
            raise RequestError(f"{where} has no key {key!r}: {nearest(str(key), known)}")


def tokenizers(
    given: Mapping[str, Any], fields: Mapping[str, Field]
) -> tuple[dict[str, Field], bool]:
    """The fields with the tokenizers that are wanted, and whether all texts have one vocabulary.

    Settings of a field override settings of all fields, which override the task's defaults. Texts
    with different settings cannot share a vocabulary.
    """
    texts = own_texts(fields)
    refuse_unknown("data.tokenizer", given, (*TOKENIZER, "shared", *texts))
    common = {key: given[key] for key in TOKENIZER if key in given}
    made: dict[str, TextField] = {}
    for name, own in texts.items():
        told = given.get(name) or {}
        refuse_unknown(f"data.tokenizer.{name}", told, TOKENIZER)
        made[name] = own.configured({**common, **told})
    settings = [(one.settings, one.min_count) for one in made.values()]
    alike = len(settings) > 1 and all(one == settings[0] for one in settings)
    one_for_all = given.get("shared", alike and not any(name in given for name in texts))
    if one_for_all and len(settings) > 1 and not alike:
        raise RequestError(
            "data.tokenizer: shared: true needs the same kind, vocab_size and lowercase on both "
            "sides"
        )
    return {**fields, **made}, bool(one_for_all)


_KEYS = tuple(
    """
    path columns tokenizer max_length header format limit where vectors store sample stream csv
    split
    """.split()
)


_OF_ONE = {"kind": str, "vocab_size": int, "lowercase": bool, "segmenter": str, "fold": bool}


TYPES: Mapping[str, Any] = {
    "path": str,
    **dict.fromkeys(sources.SPLITS, str | dict[str, str]),
    "columns": dict[str, str | int],
    "tokenizer": {**_OF_ONE, "shared": bool, "min_count": int},
    "max_length": int,
    "header": bool,
    "format": str,
    "split": list[float] | dict[str, list[float] | str | int],
    "csv": {"delimiter": str, "quote": str, "escape": str},
    "limit": int | dict[str, int],
    "where": TYPE,
    "store": str,
    "sample": int,
    "stream": {"files": str | dict[str, str], "buffer": int, "lanes": int},
}
"""Of each key of a `data:` section its type."""


def types(fields: Mapping[str, Field]) -> Mapping[str, Any]:
    """Of each key of a `data:` section its type, for a task with these fields."""
    texts = {name: _OF_ONE for name, own in fields.items() if isinstance(own, TextField)}
    return {**TYPES, "tokenizer": {**TYPES["tokenizer"], **texts}}


def limits_of(config: Mapping[str, Any]) -> dict[str, int]:
    """How many rows `data.limit` leaves of each split: one number is of the training split.

    Raises:
        RequestError: a split of another name.
    """
    told = config.get("limit")
    limits = {"train": told} if isinstance(told, int) else dict(told or {})
    refuse_unknown("data.limit", limits, tuple(sources.SPLITS))
    return limits


def _dialect(told: Mapping[str, str]) -> dict[str, str]:
    """`data.csv`, checked: each is one character, and the escape may be none."""
    refuse_unknown("data.csv", told, tuple(TYPES["csv"]))
    for key, value in told.items():
        if len(value) != 1 and not (key == "escape" and not value):
            raise RequestError(f"data.csv.{key}: expected one character, got {value!r}")
    return dict(told)


def _columns(
    fields: Mapping[str, Field], found: dict[str, str | int], told: Collection[str]
) -> dict[str, str | int]:
    """The columns; a key of the field that it is `of` stands in its column where none is told."""
    own = {n: f.of for n, f in fields.items() if isinstance(f, KeyField) and n not in told}
    return {**found, **{name: found[of] for name, of in own.items() if of is not None}}


def _found(told: Any) -> Any:
    """A file, or one for each field."""
    if isinstance(told, Mapping):
        return {name: sources.find(one) for name, one in told.items()}
    return sources.find(told)


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
        limit: at most this many rows of a split, spread evenly over it.
        where: of each split, only rows whose column (not a field) has one of these values.
        store: the folder that keeps the ids of training splits on disk; "": they are in memory. See
            `regard.datasets.stored`.
        sample: rows of a stored or streamed split that its fields are learned from.
        split: the shares of the splits that one file is divided into; None: it is one split. See
            `regard.datasets.dividing`.
        csv: `delimiter`, `quote` and `escape` of CSV files; {}: they are detected.
        stream: the files of the training split that are read a buffer at a time, where it is. See
            `regard.datasets.streamed`.
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
    where: Where
    store: str = ""
    sample: int = 200_000
    csv: Mapping[str, str] = field(default_factory=dict)
    split: Shares | None = None
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
        usual = {name: name for name in read} | dict(columns or {})
        refuse_unknown("data.columns", named, read)
        stream = dict(config.get("stream") or {})
        refuse_unknown("data.stream", stream, tuple(TYPES["stream"]))
        if stream.get("files") and config.get("train"):
            raise RequestError("data.train and data.stream.files: leave out one of the two")
        given = any(config.get(split) for split in ("path", *sources.SPLITS))
        if not given and not stream.get("files"):
            raise RequestError("data.path is not given: a folder, or a file (or data.train, …)")
        configured, shared = tokenizers(config.get("tokenizer") or {}, fields)
        words, encoder = vectors_of(config.get("vectors"))
        if encoder is not None and (config.get("store") or stream):
            raise RequestError(
                "data.vectors.encoder: a split that is stored or streamed has no states of an "
                "encoder: leave out data.store and data.stream, or the encoder"
            )
        for name, one in own_texts(configured).items():
            configured[name] = one.starting_from(words).in_context(encoder)
        return cls(
            path=config.get("path"),
            given={s: config[s] for s in sources.SPLITS if config.get(s)},
            columns=_columns(fields, {**usual, **named}, {*named, *(columns or {})}),
            header=config.get("header", header),
            format=config.get("format"),
            fields=configured,
            shared=shared,
            max_length=config.get("max_length") or longest,
            limit=limits_of(config),
            where=wanted(config.get("where")),
            store=config.get("store") or "",
            sample=config.get("sample") or cls.sample,
            split=shares_of(config),
            csv=_dialect(config.get("csv") or {}),
            stream=stream,
        )

    def files(self, splits: Sequence[str]) -> dict[str, Any]:
        """The file of each split that is asked for and there is.

        A folder is searched for them. A path to one file is that file for the one split asked for,
        or the training file where several are.

        Raises:
            RequestError: nothing is there, or none of the splits.
        """
        told = {"path": self.path, **self.given}
        return split_files(told, splits, source=_found, shares=self.split)

    def noted(self, files: Mapping[str, Any]) -> dict[str, Any]:
        """What files say that the section does not: how cells are divided, and how the rows."""
        found: dict[str, Any] = {}
        for file in files.values():
            if not isinstance(file, Mapping) and (self.format or format_of(file)) == "csv":
                found.setdefault("csv", dialect_of(file, self.csv)._asdict())
        if self.split and (file := files.get("train")) is not None:
            found["split"] = self.split.noted(divided(file, self))
        return found

    def has_header(self, split: str) -> bool:
        """Whether the first line of a split's file names its columns."""
        file = self.files([split])[split]
        return self.header and (self.format or format_of(file)) in ("tsv", "csv")
