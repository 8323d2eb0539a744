"""Rows encoded by fields that were learned from the training split."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.dataset import Column
from regard.data.problems import Problems
from regard.datasets.rows import Rows
from regard.datasets.section import Config
from regard.errors import RequestError
from regard.fields import Field, TextField
from regard.fields.sentence_columns import DocumentColumn
from regard.fields.text import TextColumn, own_texts, with_vocabularies

__all__ = ["encode", "encoded", "learn", "learned_of"]


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
    """As `encode`; the result may be empty."""
    columns: dict[str, Column] = {}
    for name, own in fields.items():

        def report(at: int, what: str, detail: str, name: str = name) -> None:
            problems.add(rows.file, rows.lines[at], what, f"{name}: {detail}", stays=True)

        columns[name] = own.encode(rows.values[name], report, fields, rows.values)
    texts = {
        name: one for name, one in columns.items() if isinstance(one, (TextColumn, DocumentColumn))
    }
    sizes = [one.tokens for one in texts.values()]
    if sizes:
        ends = [int(one.end) if isinstance(one, TextColumn) else 0 for one in texts.values()]
        scored = [split != "train" and fields[name].may_be_empty for name in texts]
        columns, rows = _fitting(
            columns, rows, np.stack(sizes, 1), ends, scored, config, split, problems
        )
    problems.report(rows.file)
    return columns, rows


def _fitting(
    columns: dict[str, Column],
    rows: Rows,
    sizes: NDArray[np.int64],
    ends: Sequence[int],
    scored: Sequence[bool],
    config: Config,
    split: str,
    problems: Problems,
) -> tuple[dict[str, Column], Rows]:
    """What has a token of every text, and in training is not too long.

    Args:
        sizes: tokens of each text of each example.
        scored: of each text whether an example without a token of it stays, and is scored.
        ends: 1 for texts whose batches have EOS behind them, which counts; else 0.
    """
    longest: NDArray[np.int64] = (sizes + np.asarray(ends)).max(1)
    over = longest > config.max_length if split == "train" else np.zeros(len(longest), bool)
    # A text of control characters alone may come to no token at all.
    void = ((sizes == 0) & ~np.asarray(scored)).any(1)
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
