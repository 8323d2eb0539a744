"""ROUGE as the package rouge-score computes it, which is what papers since 2019 report."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np

from regard.data.text.words import unicode_words
from regard.errors import RequestError, nearest
from regard.metrics.score import References, Score, Sums, comparable, count_of

__all__ = ["ROUGE", "rouge"]

ROUGE = ("rouge1", "rouge2", "rougeL", "rougeLsum")
"""The usual kinds: words, pairs of words, the longest common subsequence, that of sentences."""

_KIND = re.compile(r"rouge([1-9]|L|Lsum)")


def rouge(
    outputs: Sequence[str],
    references: References,
    *,
    kinds: Sequence[str] = ROUGE,
    stemmer: bool = False,
    tokenize: str = "default",
) -> dict[str, Score]:
    r"""F1 of n-grams, or of longest common subsequences, the mean over examples, from 0 to 100.

    .. math:: F = \frac{2PR}{P + R}, \quad P = \frac{m}{|y|}, \quad R = \frac{m}{|y^*|}

    with m the clipped common n-grams, or the length of the longest common subsequence. `rougeLsum`
    takes the union of the subsequences of each reference sentence; sentences are lines. With
    several references the one with the best F counts. `parts` have the means of P and R.

    Args:
        kinds: "rouge1" to "rouge9", "rougeL", "rougeLsum".
        stemmer: words are cut to their stems by Porter's stemmer.
        tokenize: "default", rouge-score's own: small letters a to z and digits, so that texts in
            other scripts have no word at all; "unicode": words of any script (`unicode_words`),
            where letters of scripts without blanks, and emojis, stand alone.

    Raises:
        RequestError: nothing to score, unequal numbers, an unknown kind or tokenizer.

    Source: Lin (2004), "ROUGE: a package for automatic evaluation of summaries".
    """
    for kind in kinds:
        if not _KIND.fullmatch(kind):
            raise RequestError(f"there is no score {kind!r}: {nearest(kind, ROUGE)}")
    if tokenize not in TOKENIZERS:
        raise RequestError(f"no tokenizer is called {tokenize!r}: {nearest(tokenize, TOKENIZERS)}")
    outputs, several = comparable(outputs, references)
    # Unlike the package, an example without a word in output or reference has 0, not an error.
    scorer = _scorer(tuple(kinds), stemmer, tokenize)
    found: dict[str, list[Any]] = {kind: [] for kind in kinds}
    for output, right in zip(outputs, several, strict=True):
        for kind, own in scorer.score_multi(list(right), output).items():
            found[kind].append((own.precision, own.recall, own.fmeasure))
    made = {}
    for kind, rows in found.items():
        each = 100.0 * np.array(rows, np.float64)
        precision, recall, value = (float(mean) for mean in each.mean(0))
        named = {
            "nrefs": count_of(several),
            "measure": "f1",
            "stemmer": "porter" if stemmer else "no",
            "tok": tokenize,
            "version": f"rouge-score-{version('rouge-score')}",
        }
        signature = "|".join(f"{key}:{one}" for key, one in named.items())
        parts = {"precision": precision, "recall": recall}
        made[kind] = Score(kind, value, signature, parts, Sums.percent(each[:, 2] / 100.0))
    return made


class _Unicode:
    """Letters and digits of any script, in small letters."""

    def tokenize(self, text: str) -> list[str]:
        """The words of a text."""
        return unicode_words(text)


TOKENIZERS: Mapping[str, Any] = {"default": None, "unicode": _Unicode}
"""What `tokenize` may be."""


@cache
def _scorer(kinds: tuple[str, ...], stemmer: bool, tokenize: str) -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    own = TOKENIZERS[tokenize]
    if own is None:
        return RougeScorer(list(kinds), use_stemmer=stemmer)
    return RougeScorer(list(kinds), use_stemmer=stemmer, tokenizer=own())
