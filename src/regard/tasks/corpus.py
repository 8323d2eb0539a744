"""From a recipe's `data:` section to examples: files, rows, tokenizers, what is left out, why."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data import formats, sources
from regard.data.batch import some
from regard.data.problems import Problems
from regard.data.tokenize import Tokenizer
from regard.errors import RequestError, nearest
from regard.tasks.base import Examples

__all__ = ["TYPES", "Config", "Texts", "encode", "read", "refuse_unknown"]

log = logging.getLogger(__name__)

_KEYS = ("path", "columns", "tokenizer", "max_length", "header", "format", "limit")
_SIDES = ("source", "target")
_TOKENIZER = ("kind", "size", "lowercase")
_OF_ONE = {"kind": str, "size": int, "lowercase": bool}
TYPES: Mapping[str, Any] = {
    "path": str,
    **dict.fromkeys(sources.SPLITS, str | dict[str, str]),
    "columns": dict[str, str | int],
    "tokenizer": {
        **_OF_ONE, "shared": bool, "min_count": int, "source": _OF_ONE, "target": _OF_ONE,
    },
    "max_length": int,
    "header": bool,
    "format": str,
    "limit": int | dict[str, int],
}  # fmt: skip
"""Of each key of a `data:` section its type."""

Pairs = Callable[..., tuple[list[tuple[str, str]], list[str]]]


@dataclass
class Texts:
    """Pairs as read, with where they stand: row n came from line `lines[n]` of `file`.

    `links` are those of `Examples`, where a task has read some.
    """

    file: str = ""
    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    references: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    links: Sequence[NDArray[np.int64]] | None = None

    def pick(self, at: Sequence[int]) -> "Texts":
        """Some of the rows."""
        return Texts(
            self.file,
            [self.source[i] for i in at],
            [self.target[i] for i in at],
            [self.references[i] for i in at],
            [self.lines[i] for i in at],
            None if self.links is None else [self.links[i] for i in at],
        )


@dataclass(frozen=True)
class Config:
    """A recipe's `data:` section, checked.

    Args:
        path: a folder with `train.*`, `dev.*`, `test.*`, or one file (see `files`).
        given: explicit files of single splits: a path, or one file for each side (Moses).
        columns: for `source` and `target`, the column's name or its number from 1.
        tokenizers: for each side `kind`, `size`, `lowercase`.
        shared: one tokenizer over both sides.
        max_length: longer training examples, in tokens of either side, are left out.
        limit: at most so many rows of a split, spread evenly over it.
    """

    path: str | None
    given: Mapping[str, Any]
    columns: dict[str, str | int]
    header: bool
    format: str | None
    tokenizers: dict[str, dict[str, Any]]
    shared: bool
    max_length: int
    limit: dict[str, int]

    @classmethod
    def of(
        cls,
        config: Mapping[str, Any],
        columns: Mapping[str, str | int],
        header: bool,
        tokenizer: Mapping[str, Any],
    ) -> "Config":
        """Check the keys of a `data:` section and fill in what it does not say.

        Raises:
            RequestError: an unknown key, side or split, with the nearest one.
        """
        refuse_unknown("data", config, (*_KEYS, *sources.SPLITS))
        named = config.get("columns") or {}
        refuse_unknown("data.columns", named, _SIDES)
        limit = config.get("limit")
        limits = {"train": limit} if isinstance(limit, int) else dict(limit or {})
        refuse_unknown("data.limit", limits, tuple(sources.SPLITS))
        if not config.get("path") and not any(config.get(split) for split in sources.SPLITS):
            raise RequestError("data.path is not given: a folder, or a file (or data.train, …)")
        tokenizers, shared = _tokenizers(config.get("tokenizer") or {}, tokenizer)
        return cls(
            path=config.get("path"),
            given={s: config[s] for s in sources.SPLITS if config.get(s)},
            columns={**columns, **named},
            header=config.get("header", header),
            format=config.get("format"),
            tokenizers=tokenizers,
            shared=shared,
            max_length=config.get("max_length") or 256,
            limit=limits,
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
                found[split] = {side: sources.find(one) for side, one in file.items()}
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

    def train_tokenizers(self, texts: Texts) -> dict[str, Tokenizer]:
        """Learn the tokenizers of both sides from the training texts."""
        sides = {"source": texts.source, "target": texts.target}
        if self.shared:
            both = Tokenizer.train(chain(*sides.values()), **self.tokenizers["source"])
            return {"source": both, "target": both}
        return {
            side: Tokenizer.train(rows, **self.tokenizers[side]) for side, rows in sides.items()
        }


def read(
    path: "Path | Mapping[str, Path]", config: Config, pairs: Pairs, split: str, problems: Problems
) -> Texts:
    """Read one split; lines without text on a side are reported and left out."""
    texts = Texts()
    rows = formats.read(path, config.columns, config.format, config.header, problems)
    for row in rows:
        source, target = row.fields["source"].strip(), row.fields["target"].strip()
        texts.file = row.file
        if not source or not target:
            problems.add(row.file, row.line, "empty", "no source" if not source else "no target")
            continue
        learned, right = pairs(source, target, training=split == "train")
        for one, other in learned:
            texts.source.append(one)
            texts.target.append(other)
            texts.references.append(right)
            texts.lines.append(row.line)
    problems.report(texts.file)
    limit = config.limit.get(split)
    if limit is not None and limit < len(texts.source):
        return texts.pick(some(len(texts.source), limit))
    return texts


def encode(
    texts: Texts,
    config: Config,
    tokenizers: Mapping[str, Tokenizer],
    split: str,
    problems: Problems,
) -> Examples:
    """Turn texts into examples; in training, those longer than `max_length` are left out.

    Dev and test stay whole: a score is of every sentence, however long.
    """
    source = tokenizers["source"].encode_all(texts.source)
    target = tokenizers["target"].encode_all(texts.target)
    longest: NDArray[np.int64] = np.maximum(source.sizes, target.sizes) + 1
    over = longest > config.max_length if split == "train" else np.zeros(len(longest), bool)
    # A text of control characters alone may come to no token at all.
    void = (source.sizes == 0) | (target.sizes == 0)
    for i in np.flatnonzero(over | void).tolist():
        if void[i]:
            problems.add(texts.file, texts.lines[i], "empty", "no tokens")
        else:
            detail = f"{longest[i]} tokens, at most {config.max_length}"
            problems.add(texts.file, texts.lines[i], "too long", detail)
    problems.report(texts.file)
    kept = np.flatnonzero(~(over | void))
    if len(kept) == 0:
        told = f": {dict(problems.counts)} lines were left out" if len(problems) else ""
        raise RequestError(f"{texts.file or split} has no usable line{told}")
    examples = Examples(source, target, texts.source, texts.references, texts.links)
    return examples if len(kept) == len(longest) else examples.subset(kept.tolist())


def refuse_unknown(where: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse keys that a section does not have, with the nearest one that it has."""
    for key in given:
        if key not in known:
            raise RequestError(f"{where} has no key {key!r}: {nearest(str(key), known)}")


def _tokenizers(
    given: Mapping[str, Any], default: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], bool]:
    """What each side's tokenizer is trained with, and whether it is one for both.

    What is said of a side overrides what is said of both, and that what the task has as default.
    Sides that are to differ cannot share.
    """
    refuse_unknown("data.tokenizer", given, (*_TOKENIZER, "shared", *_SIDES))
    sides: dict[str, dict[str, Any]] = {}
    for side in _SIDES:
        layers = (default, default.get(side, {}), given, given.get(side) or {})
        refuse_unknown(f"data.tokenizer.{side}", given.get(side) or {}, _TOKENIZER)
        sides[side] = {k: layer[k] for layer in layers for k in _TOKENIZER if k in layer}
    alike = sides["source"] == sides["target"]
    shared = given.get("shared", alike and not any(side in given for side in _SIDES))
    if shared and not alike:
        raise RequestError(
            "data.tokenizer: shared: true needs the same kind, size and lowercase on both sides"
        )
    return sides, shared
