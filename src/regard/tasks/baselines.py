"""What is got without reading: the scores that a reader is to be compared with."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from regard.data.passages.questions import Question
from regard.data.text.sentence_splitters import sentences_of
from regard.data.text.words import unicode_words
from regard.metrics import Score, accuracy
from regard.metrics.score import signature
from regard.metrics.squad import exact_match, span_f1
from regard.metrics.summary_statistics import overlap

__all__ = ["frequent", "lead", "of_spans", "of_words", "oracle", "window"]


def frequent(one: Question) -> str:
    """The candidate that is most often in the document; of equals the first met there."""
    counts = Counter(one.words)  # in the order of first appearance
    allowed = set(one.candidates or counts)
    known = {word: n for word, n in counts.items() if word in allowed}
    return max(known, key=known.__getitem__) if known else one.candidates[0]


def of_words(questions: Sequence[Question]) -> Mapping[str, Score]:
    """`random`: what guessing among the candidates gets on average; `frequent`."""
    chance = [
        (one.answers[0] in one.candidates) / len(one.candidates)
        if one.candidates and one.answers
        else 0.0
        for one in questions
    ]
    right = [one.answers[0] if one.answers else "" for one in questions]
    most = accuracy([frequent(one) for one in questions], right)
    text = signature(metric="accuracy", guess="random")
    return {
        "frequent": replace(most, name="frequent", signature=f"{most.signature}|guess:frequent"),
        "random": Score("random", 100 * sum(chance) / len(chance), text),
    }


def window(one: Question) -> str:
    """A sliding window's answer.

    The window of as many words as the query that shares the most with it, words weighed by
    log(1 + 1 / their count in the document) (Richardson et al. 2013, algorithm 1). Answered is the
    longest run of words in its sentence that are not in the query.
    """
    words = [word.lower() for word in one.words]
    asked, counts = {word.lower() for word in one.query}, Counter(words)
    worth = [math.log(1 + 1 / counts[w]) if w in asked and w.isalnum() else 0.0 for w in words]
    size = min(len(asked), len(words))
    now = best = sum(worth[:size])
    at = 0
    for start in range(1, len(words) - size + 1):
        now += worth[start + size - 1] - worth[start - 1]
        if now > best + 1e-12:
            best, at = now, start
    middle = at + size // 2
    ends = [-1, *(i for i, word in enumerate(words) if word in ".!?;"), len(words)]
    left = max(i for i in ends if i < middle or i < 0)
    right = min(i for i in ends if i >= middle and i > left)
    runs, run = [], list[int]()
    for i in range(left + 1, right):
        if words[i] in asked or not words[i][0].isalnum():
            run = []
            continue
        run.append(i)
        runs.append(list(run))
    found = max(runs, key=len, default=[min(middle, len(words) - 1)])
    return one.piece(found[0], found[-1])


def of_spans(questions: Sequence[Question]) -> Mapping[str, Score]:
    """`window_em` and `window_f1` of the sliding window."""
    outputs, right = [window(one) for one in questions], [one.answers for one in questions]
    found = {"window_em": exact_match(outputs, right), "window_f1": span_f1(outputs, right)}
    return {
        name: replace(score, name=name, signature=f"{score.signature}|guess:window")
        for name, score in found.items()
    }


def lead(text: str, sentences: int = 3, words: int = 0) -> str:
    """The first sentences of a text, and of these the first words; 0 for all.

    Example:
        >>> lead("One tool. Two tools.  Three.", sentences=2, words=3)
        'One tool. Two'
    """
    chosen = sentences_of(text, "punctuation")[: sentences or None]
    return " ".join(" ".join(chosen).split()[: words or None])


def oracle(text: str, references: Sequence[str], sentences: int = 3) -> str:
    """At most this many sentences of a text that the references have most in common with.

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
