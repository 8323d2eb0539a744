"""Lengths, labels and samples of the columns of a split."""

import random
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import regex

from regard.data import Problems, Row, read
from regard.data.text.normal_form import composed

__all__ = ["LABELS", "PERCENTILES", "SAMPLES", "ColumnSummary", "Split"]


SAMPLES = 3


PERCENTILES = {"min": 0, "median": 50, "p95": 95, "p99": 99, "max": 100}


LABELS = 0.5
"""A column with a smaller share of distinct values holds labels: equal ones are no leaks."""


DIFFERENT = 2_000_000
"""Different words that are counted; of a column with more nothing is said of words."""
FIRST = 2_000
"""Texts of a column that tell its script."""

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]*\p{L}[\p{L}\p{M}\p{N}]*")


class ColumnSummary:
    """What is counted of one column, a row at a time: 16 bytes and a hash each, and its words."""

    def __init__(self) -> None:
        self.words, self.characters, self.hashes = array("i"), array("i"), array("q")
        self.different: Counter[int] | None = Counter()
        """How often each word is there, in small letters, by its hash; None for too many."""
        self.first: list[str] = []

    def add(self, text: str) -> None:
        """Count one row's text."""
        self.words.append(len(text.split()))
        self.characters.append(len(text))
        self.hashes.append(hash(composed(text.strip())))
        if len(self.first) < FIRST:
            self.first.append(text)
        if self.different is not None:
            self.different.update(map(hash, _WORD.findall(composed(text).lower())))
            if len(self.different) > DIFFERENT:
                self.different = None

    @property
    def distinct(self) -> int:
        """How many different texts there are."""
        return len(np.unique(self.hashes))

    def summary(self) -> dict[str, Any]:
        """Lengths, distinct and empty texts."""
        return {
            "words": _lengths(self.words),
            "characters": _lengths(self.characters),
            "distinct": self.distinct,
            "empty": int((np.asarray(self.words) == 0).sum()),
        }


def _lengths(counts: array) -> dict[str, int]:  # type: ignore[type-arg]
    values = np.percentile(counts, list(PERCENTILES.values()), method="higher") if counts else []
    return {name: int(v) for name, v in zip(PERCENTILES, values, strict=False)}


class Split:
    """What is counted of one file."""

    def __init__(self, file: Path, columns: Mapping[str, str | int]) -> None:
        self.file = file
        self.columns = {name: ColumnSummary() for name in columns}
        self.rows = array("q")
        self.samples: list[Row] = []
        self.problems = Problems()

    def read(self, columns: Mapping[str, str | int], format: str | None, header: bool) -> "Split":
        """Count every row of the file."""
        draw = random.Random(1)
        for found in read(self.file, columns, format, header, self.problems, lists=tuple(columns)):
            texts = {n: c if isinstance(c, str) else " ".join(c) for n, c in found.fields.items()}
            row = replace(found, fields=texts)
            for name, column in self.columns.items():
                column.add(row.fields[name])
            self.rows.append(hash(tuple(composed(t.strip()) for t in row.fields.values())))
            if len(self.samples) < SAMPLES:  # each row ends up here with equal chance
                self.samples.append(row)
            elif (at := draw.randrange(len(self.rows))) < SAMPLES:
                self.samples[at] = row
        return self

    def summary(self) -> dict[str, Any]:
        """Everything about this file alone."""
        return {
            "file": str(self.file),
            "rows": len(self.rows),
            "duplicates": len(self.rows) - len(np.unique(self.rows)),
            "columns": {name: column.summary() for name, column in self.columns.items()},
            "problems": dict(self.problems.counts),
            "first_problems": [str(p) for _, p in zip(range(10), self.problems, strict=False)],
            "samples": [{"line": r.line, **r.fields} for r in sorted(self.samples, key=_line)],
        }


def _line(row: Row) -> int:
    return row.line
