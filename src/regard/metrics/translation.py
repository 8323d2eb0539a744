"""BLEU and chrF as sacreBLEU computes them, with its signatures."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.errors import RequestError, nearest
from regard.metrics.score import References, Score, Sums, comparable
from regard.metrics.significance import Interval

__all__ = ["bleu", "chrf"]


def bleu(
    hypotheses: Sequence[str],
    references: References,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    samples: int = 0,
) -> Score:
    """BLEU of a set of translations.

        BLEU = 100 min(1, exp(1 - |r|/|h|)) (Π_{n=1..4} p_n)^{1/4}

    with p_n the clipped n-gram precisions, |h| and |r| the lengths of outputs and of the references
    nearest in length.

    Args:
        hypotheses: plain text, not tokenized.
        references: the reference of each, or several.
        tokenize: sacreBLEU's tokenizer: 13a, intl, zh, char, none, …
        lowercase: ignore case.
        samples: bootstrap samples for a 95 % interval in `parts["interval"]`; 0 for none.

    Raises:
        RequestError: nothing to score, unequal numbers, an unknown tokenizer.

    Source: Papineni et al. (2002); Post (2018), "A call for clarity in reporting BLEU scores".
    """
    from sacrebleu.metrics.bleu import BLEU

    if tokenize not in BLEU.TOKENIZERS:
        raise RequestError(
            f"no tokenizer is called {tokenize!r}: {nearest(tokenize, BLEU.TOKENIZERS)}"
        )
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    found, sums = _corpus_score(metric, hypotheses, references, samples)
    parts = {
        "precisions": [float(p) for p in found.precisions],
        "brevity_penalty": float(found.bp),
        "output_tokens": int(found.sys_len),
        "reference_tokens": int(found.ref_len),
    }
    return _as_score("bleu", metric, found, parts, samples, sums)


def chrf(
    hypotheses: Sequence[str],
    references: References,
    *,
    characters: int = 6,
    words: int = 0,
    beta: int = 2,
    lowercase: bool = False,
    samples: int = 0,
) -> Score:
    """The F-score of character n-grams: chrF2, or chrF2++ with `words=2`.

        chrF_β = 100 (1 + β²) P R / (β² P + R)

    with P and R the mean precision and recall over n-grams of up to `characters` characters and
    `words` words.

    Source: Popović (2015), "chrF: character n-gram F-score for automatic MT evaluation".
    """
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF(char_order=characters, word_order=words, beta=beta, lowercase=lowercase)
    found, sums = _corpus_score(metric, hypotheses, references, samples)
    return _as_score("chrf", metric, found, {}, samples, sums)


def _corpus_score(
    metric: Any, hypotheses: Sequence[str], references: References, n: int
) -> tuple[Any, Sums]:
    """The corpus score of sacreBLEU, and the counts of each sentence."""
    hypotheses, found = comparable(hypotheses, references)
    most = max(map(len, found))
    # sacreBLEU wants a stream of all first references, one of all second ones, …; None: has none.
    streams = [[r[i] if i < len(r) else None for r in found] for i in range(most)]

    def of(sums: np.ndarray) -> np.ndarray:
        rows = sums.reshape(-1, sums.shape[-1])
        scores = [metric._compute_score_from_stats([int(n) for n in row]).score for row in rows]
        return np.array(scores).reshape(sums.shape[:-1])

    # The counts that sacreBLEU's significance tests resample (sacrebleu.significance).
    each = metric._extract_corpus_statistics(list(hypotheses), streams)
    if n > 1:
        whole = metric.corpus_score(list(hypotheses), streams, n_bootstrap=n)
    else:
        whole = metric._aggregate_and_compute(each)
    return whole, Sums(np.array(each, np.float64), of)


def _as_score(
    name: str, metric: Any, found: Any, parts: dict[str, Any], samples: int, sums: Sums
) -> Score:
    if samples > 1:
        low, high = found._mean - found._ci, found._mean + found._ci
        parts = {**parts, "interval": Interval(float(low), float(high), 95.0, samples)}
    return Score(name, float(found.score), str(metric.get_signature()), parts, sums)
