"""How well a language model foretells a text, as the field counts it."""

import math
from collections.abc import Sequence

import numpy as np

from regard.errors import RequestError
from regard.metrics.score import Score, Sums, signature

__all__ = ["perplexity"]


def perplexity(log_probs: Sequence[float], words: Sequence[int], unknown: int = 0) -> Score:
    r"""Perplexity per word, the end of each line counted as a word (as for the Penn Treebank).

    .. math:: \exp\Big(-\frac{\sum_n \log p(\text{line}_n)}{\sum_n (\text{words}_n + 1)}\Big)

    The words are those of the text, so models with other pieces than words can be compared; models
    with other vocabularies cannot, since an unknown word costs what all of them cost together.

    Args:
        log_probs: of each line, its end among it, by the natural logarithm.
        words: of each line, without its end.
        unknown: how many of them no vocabulary has; noted beside the score.

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
    with np.errstate(over="ignore"):  # beyond what a float holds it is infinite
        return np.asarray(np.exp(sums[..., 0] / sums[..., 1]))
