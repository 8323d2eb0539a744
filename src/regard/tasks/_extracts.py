"""Summaries that are cut out of their texts: what a model that writes must be better than."""

from collections.abc import Sequence

from regard.fields.sentence_columns import sentences_of
from regard.metrics.summary_rouge import unicode_words
from regard.metrics.summary_statistics import overlap

__all__ = ["lead", "oracle"]


def lead(text: str, sentences: int = 3, words: int = 0) -> str:
    """The first sentences of a text, and of these the first words; 0 for all.

    Example:
        >>> lead("One tool. Two tools.  Three.", sentences=2, words=3)
        'One tool. Two'
    """
    chosen = sentences_of(text, "punctuation")[: sentences or None]
    return " ".join(" ".join(chosen).split()[: words or None])


def oracle(text: str, references: Sequence[str], sentences: int = 3) -> str:
    """At most so many sentences of a text that the references have most in common with.

    The sentence that adds most to the sum of the F1 of words and of pairs of words is taken, one
    after the other, until none adds anything (Nallapati, Zhai and Zhou 2017, section 3.1). It knows
    the references: no extractive summary of that many sentences is much better.

    Example:
        >>> oracle("It is old. A tool for files. It runs.", ["files tool"], 2)
        'A tool for files.'
    """
    found = sentences_of(text, "punctuation")
    words = [unicode_words(one) for one in found]
    right = [unicode_words(one) for one in references]
    chosen: list[int] = []
    best = 0.0
    while len(chosen) < sentences:
        gains = {}
        for i in set(range(len(found))) - set(chosen):
            both = [word for j in sorted([*chosen, i]) for word in words[j]]
            gains[i] = max(
                (overlap(both, own) + overlap(both, own, 2) for own in right), default=0.0
            )
        top = max(sorted(gains), key=lambda i: gains[i], default=None)
        if top is None or gains[top] <= best:
            break
        best = gains[top]
        chosen.append(top)
    return "\n".join(found[i] for i in sorted(chosen))
