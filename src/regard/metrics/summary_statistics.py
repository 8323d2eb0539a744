"""What ROUGE does not say of summaries: their length, what is new, repeated or copied in them."""

from collections.abc import Iterable, Sequence

import numpy as np
import regex

from regard.data.text.normal_form import composed
from regard.data.text.words import unicode_words
from regard.metrics.overlap import rouge_n
from regard.metrics.score import References, Score, Sums, comparable, same_number, signature

__all__ = ["copied_names", "length_ratio", "novelty", "overlap", "repetition"]

_PLACE = regex.compile(r"[\p{L}\p{N}](?:\S*[\p{L}\p{N}])?\p{M}*")
_NAME = regex.compile(r"[\p{Lu}\p{Lt}\p{Nd}]")


def length_ratio(outputs: Sequence[str], references: References) -> Score:
    """Words of the outputs for each 100 words of the (first) references."""
    outputs, several = comparable(outputs, references)
    pairs = zip(outputs, several, strict=True)
    counts = [(len(unicode_words(y)), len(unicode_words(r[0]))) for y, r in pairs]
    return _share("length_ratio", counts, signature(what="length", of="words"))


def novelty(outputs: Sequence[str], sources: Sequence[str], size: int = 2) -> Score:
    """Share of the n-grams of outputs that their sources have not (See et al. 2017, figure 6).

    Args:
        size: n.
    """
    same_number(outputs, sources, "sources")
    counts = []
    for output, source in zip(outputs, sources, strict=True):
        there = set(_grams(unicode_words(source), size))
        own = _grams(unicode_words(output), size)
        counts.append((sum(one not in there for one in own), len(own)))
    return _share("novelty", counts, signature(what="new", ngram=size))


def repetition(outputs: Sequence[str], size: int = 3) -> Score:
    """Share of the n-grams of outputs that the same output had before (See et al. 2017, figure 4).

    Args:
        size: n.
    """
    same_number(outputs, outputs)
    counts = []
    for output in outputs:
        own = _grams(unicode_words(output), size)
        counts.append((len(own) - len(set(own)), len(own)))
    return _share("repetition", counts, signature(what="repeated", ngram=size))


def copied_names(outputs: Sequence[str], references: References, sources: Sequence[str]) -> Score:
    """Of the capitalized words and numbers that source and reference share, those in the output.

    A word counts once an example, is what stands between blanks without marks around it, and must
    be spelled exactly. Words at the beginning of a sentence count as any other.
    """
    outputs, several = comparable(outputs, references)
    same_number(outputs, sources, "sources")
    counts = []
    for output, right, source in zip(outputs, several, sources, strict=True):
        wanted = _names(right[0]) & _names(composed(source))
        counts.append((len(wanted & _names(output)), len(wanted)))
    return _share("copied_names", counts, signature(what="names and numbers", case="exact"))


def overlap(output: Sequence[str], right: Sequence[str], size: int = 1) -> float:
    """F1 of the n-grams of two lists of words, from 0 to 1: ROUGE-n without a tokenizer.

    Example:
        >>> overlap(["a", "b", "c", "d"], ["a", "b", "x", "d"])
        0.75
    """
    return rouge_n(output, right, size)


def _grams(words: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + size]) for i in range(len(words) - size + 1)]


def _names(text: str) -> set[str]:
    """Capitalized words and numbers."""
    words = (found.group() for part in text.split() if (found := _PLACE.search(part)))
    return {word for word in words if _NAME.match(word)}


def _share(name: str, counts: Iterable[tuple[int, int]], told: str) -> Score:
    """100 times the sum of the first over that of the second; 0 where there is nothing."""
    each = np.array(list(counts), np.float64).reshape(-1, 2)
    of, total = each.sum(0)
    return Score(name, 100.0 * of / max(total, 1.0), told, {"of": int(total)}, Sums.percent(each))
