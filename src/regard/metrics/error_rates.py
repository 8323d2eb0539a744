"""Error rates over tokens: phonemes and words, against the nearest of several references."""

from collections.abc import Callable, Sequence

import numpy as np

from regard.errors import RequestError
from regard.metrics.distance import nearest_variant
from regard.metrics.score import References, Score, Sums, comparable, count_of, signature
from regard.metrics.significance import bootstrap

__all__ = ["cer", "per", "wer", "word_error_rate"]


def per(hypotheses: Sequence[str], references: References, *, samples: int = 0) -> Score:
    """Phoneme error rate: edits divided by the number of reference phonemes.

        PER = 100 Σ_n d(h_n, v_n) / Σ_n |v_n|,   v_n = the variant of example n nearest to h_n

    Of equally near variants the first one is used.

    Args:
        hypotheses: one string per word, with phonemes separated by white space; empty: all deleted.
        references: the pronunciation of each word, or all its variants.
        samples: bootstrap samples for a 95 % interval in `parts["interval"]`; 0 for none.

    Raises:
        RequestError: nothing to score, unequal numbers, or no phonemes in the references.

    Example:
        >>> per(["K AE T", "D AO"], [["K AE T"], ["D AA G Z", "D AO G", "D AO Z"]]).parts["edits"]
        1
    """
    return _rate("per", "phonemes", hypotheses, references, samples)


def word_error_rate(
    hypotheses: Sequence[str], references: References, *, samples: int = 0
) -> Score:
    """Word error rate of running text, as in speech recognition (jiwer, sclite).

        100 Σ_n d(h_n, r_n) / Σ_n |r_n|    over words separated by white space

    With several references the nearest one counts, as in `per`. Case and punctuation are kept.
    sclite aligns with costs 4, 3, 3, so that in rare cases it counts more edits.
    """
    return _rate("word_error_rate", "words", hypotheses, references, samples)


def cer(hypotheses: Sequence[str], references: References, *, samples: int = 0) -> Score:
    """Character error rate of running text (jiwer's); blanks between words count.

        100 Σ_n d(h_n, r_n) / Σ_n |r_n|    over characters, white space made one blank

    Example:
        >>> cer(["a cap"], ["a cat"]).value
        20.0
    """
    return _rate("cer", "characters", hypotheses, references, samples, _letters)


def _letters(text: str) -> list[str]:
    return list(" ".join(text.split()))


def _rate(
    name: str,
    unit: str,
    hypotheses: Sequence[str],
    references: References,
    samples: int,
    cut: Callable[[str], list[str]] = str.split,
) -> Score:
    hypotheses, found = comparable(hypotheses, references)
    counts = np.zeros((len(found), 2), dtype=np.int64)  # edits, length: (example, 2)
    for row, hypothesis, several in zip(counts, hypotheses, found, strict=True):
        split = [cut(v) for v in several]
        index, edits = nearest_variant(cut(hypothesis), split)
        row[:] = edits, len(split[index])
    edits, length = (int(n) for n in counts.sum(0))
    if length == 0:
        raise RequestError(f"nothing to score: the references have no {unit}")
    return _with_interval(
        Score(
            name,
            100 * edits / length,
            signature(
                nrefs=count_of(found), unit=unit, edit="levenshtein", variant="nearest-then-first"
            ),
            {"edits": edits, unit: length, "examples": len(found)},
        ),
        counts,
        samples,
    )


def wer(hypotheses: Sequence[str], references: References, *, samples: int = 0) -> Score:
    """Word error rate of pronunciations: the share of words whose output matches no variant.

        WER = 100 Σ_n [h_n ∉ variants_n] / N

    Phonemes are compared after splitting at white space. For running text see `word_error_rate`.

    Example:
        >>> wer(["K AE T", "D AO G"], [["K AE T"], ["D AA G"]]).value
        50.0
    """
    hypotheses, found = comparable(hypotheses, references)
    counts = np.ones((len(found), 2), dtype=np.int64)  # is it wrong, 1: (example, 2)
    for row, hypothesis, several in zip(counts, hypotheses, found, strict=True):
        row[0] = hypothesis.split() not in [v.split() for v in several]
    wrong = int(counts[:, 0].sum())
    return _with_interval(
        Score(
            "wer",
            100 * wrong / len(found),
            signature(nrefs=count_of(found), match="any-variant"),
            {"wrong": wrong, "words": len(found)},
        ),
        counts,
        samples,
    )


def _with_interval(score: Score, counts: np.ndarray, samples: int) -> Score:
    """The score with its sums, 100 Σ first / Σ second, and with its interval if requested."""
    sums, parts = Sums.percent(counts), dict(score.parts)
    if samples:
        parts["interval"] = bootstrap(sums, samples=samples)
    return Score(score.name, score.value, score.signature, parts, sums)
