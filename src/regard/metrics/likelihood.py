"""Perplexity of language models."""

import math
from collections.abc import Sequence

import numpy as np

from regard.errors import RequestError
from regard.metrics.score import Score, Sums, signature

__all__ = ["perplexity"]


def perplexity(log_probs: Sequence[float], words: Sequence[int], unknown: int = 0) -> Score:
    r"""Perplexity per word, the end of each line counted as a word (as for the Penn Treebank).

    .. math:: \exp\Big(-\frac{\sum_n \log p(\text{line}_n)}{\sum_n (\text{words}_n + 1)}\Big)

    Words are counted in the text, so models with different subword units are comparable. Models
    with different word vocabularies are not, because an unknown word gets the probability of all
    unknown words together.

    Args:
        log_probs: of each line including its end, natural logarithm.
        words: the number of words of each line, without its end.
        unknown: the number of unknown words, reported with the score.

    Raises:
        RequestError: nothing to score, or unequal numbers.

    Example:
        >>> round(perplexity([math.log(0.5) * 3, math.log(0.5) * 2], [2, 1]).value, 9)
        2.0
    """
    if len(log_probs) != len(words):
        raise RequestError(
            f"expected as many counts of words as log-probabilities, got {len(words)} and "
            f"{len(log_probs)}"
        )
    if not len(words):
        raise RequestError("nothing to score: there are no examples")
    counts = np.stack([-np.asarray(log_probs, np.float64), np.asarray(words, np.float64) + 1], 1)
    surprise, total = counts.sum(0)
    parts = {
        "words": int(total) - len(words),
        "lines": len(words),
        "unknown": unknown,
        "bits": float(surprise / total / math.log(2)),
    }
    marks = signature(metric="perplexity", per="word", ends="counted", unknown="one-word")
    return Score("perplexity", float(_of(counts.sum(0))), marks, parts, Sums(counts, _of))


def _of(sums: np.ndarray) -> np.ndarray:
    """Perplexities of sums (..., 2)."""
    with np.errstate(over="ignore"):  # infinite on overflow
        return np.asarray(np.exp(sums[..., 0] / sums[..., 1]))
