"""Words that training never saw: how many there are, why, and what to try, in one sentence."""

import logging
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from regard.data.dataset import Column
from regard.data.text.segmenters import share_without_blanks
from regard.data.text.tokenizer import Tokenizer
from regard.datasets.rows import Rows
from regard.datasets.statistics import LABELS, ColumnSummary, Split
from regard.fields import Field, TextField
from regard.fields.sentence_columns import DocumentColumn
from regard.fields.text import TextColumn
from regard.protocols import UNK

__all__ = ["MANY", "say_unseen", "unseen_words"]

MANY = 0.3
"""From this share of unseen tokens on something is said."""
LOOKED_AT = 2_000
"""Texts that tell why."""
HALF = 0.5
WORDS_EACH = 2

SEGMENTED = "texts without blanks? try data.tokenizer.kind=segmented"

log = logging.getLogger(__name__)


def say_unseen(
    columns: Mapping[str, Column], rows: Rows, fields: Mapping[str, Field], split: str
) -> None:
    """Log a line for each text of a split of which many tokens are unknown.

    Example:
        87 % of the tokens of dev (text) were never seen: texts without blanks? try
        data.tokenizer.kind=segmented
    """
    for name, column in columns.items():
        own = fields.get(name)
        if not isinstance(own, TextField) or not isinstance(column, (TextColumn, DocumentColumn)):
            continue
        ids = column.ids.flat if isinstance(column, TextColumn) else column.words.flat
        share = float(np.mean(ids == UNK)) if len(ids) else 0.0
        if share >= MANY:
            texts = [own.written(value) for value in islice(rows.values[name], LOOKED_AT)]
            log.warning(
                "%.0f %% of the tokens of %s (%s) were never seen: %s",
                100 * share,
                split,
                name,
                _why(own.tokenizer, texts),
            )


def _why(tokenizer: Tokenizer, texts: Sequence[str]) -> str:
    """The likeliest reason, and what to try."""
    if tokenizer.segmenter is None and share_without_blanks(texts) >= HALF:
        return SEGMENTED
    known = set(tokenizer.vocabulary)
    lost = [word for words in tokenizer.words_of_all(texts) for word in words if word not in known]
    other = {word.lower() for word in known} if not tokenizer.lowercase else set()
    if sum(word.lower() in other for word in lost) >= HALF * len(lost):
        return "they are known in other capitals; try data.tokenizer.lowercase=true"
    return (
        f"another language or domain than train, or a small vocabulary ({len(tokenizer):,})? "
        "subwords know parts of new words: try data.tokenizer.kind=bpe, or a larger vocab_size or "
        "smaller min_count"
    )


def unseen_words(found: Mapping[str, Split]) -> list[dict[str, Any]]:
    """Of each text column of dev and test files the words that the training file lacks.

    Words are runs of letters and digits, in small letters. Columns of labels, and of single words,
    are left out.

    Returns:
        for columns with many: `split`, `column`, `share` (from 0 to 1) and `why`.
    """
    if "train" not in found:
        return []
    rows = []
    for split, own in found.items():
        for name, column in own.columns.items():
            known = found["train"].columns.get(name)
            if split == "train" or known is None or not _is_text(column):
                continue
            counts, there = column.different, known.different
            if counts is None or there is None or not counts:
                continue
            share = sum(n for word, n in counts.items() if word not in there) / counts.total()
            if share >= MANY:
                alone = share_without_blanks(column.first) >= HALF
                why = (
                    f"{SEGMENTED}, or subwords"
                    if alone
                    else "another language or domain than train?"
                )
                rows.append({"split": split, "column": name, "share": round(share, 4), "why": why})
    return rows


def _is_text(column: ColumnSummary) -> bool:
    """Not labels, and not single words."""
    rows = len(column.hashes)
    return rows > 0 and column.distinct >= LABELS * rows and _words(column) >= WORDS_EACH * rows


def _words(column: ColumnSummary) -> int:
    return column.different.total() if column.different else 0
