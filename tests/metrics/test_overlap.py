"""Overlaps of ids against the table of the textbook, and against `rouge-score`'s own numbers."""

import random

import pytest

from regard.metrics.overlap import OVERLAPS, longest_common_subsequence, rouge_l, rouge_n
from regard.protocols import UNK


def by_table(one, other):
    row = [0] * (len(other) + 1)
    for x in one:
        before, row = row, [0]
        for j, y in enumerate(other):
            row.append(before[j] + 1 if x == y else max(before[j + 1], row[-1]))
    return row[-1]


def words(chance, most, alphabet):
    return [chance.randrange(4, 4 + alphabet) for _ in range(chance.randrange(most + 1))]


def test_longest_common_subsequence():
    chance = random.Random(1)
    for most, alphabet in ((4, 2), (9, 3), (70, 8), (150, 30)):
        for _ in range(60):
            one, other = (words(chance, most, alphabet) for _ in range(2))
            assert longest_common_subsequence(one, other) == by_table(one, other)


def test_f1_is_that_of_rouge_score():
    scorer = pytest.importorskip("rouge_score.rouge_scorer")
    names = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}
    official = scorer.RougeScorer(list(names.values()))
    chance = random.Random(2)
    for _ in range(100):
        one, other = (words(chance, 12, 6) for _ in range(2))
        said = official.score(" ".join(f"w{i}" for i in other), " ".join(f"w{i}" for i in one))
        for name, own in names.items():
            assert OVERLAPS[name](one, other) == pytest.approx(said[own].fmeasure, abs=1e-12)


def test_unknown_words_never_match():
    assert rouge_l([UNK, 5], [UNK, 5]) == 0.5
    assert rouge_n([UNK, 5], [UNK, 5]) == 0.5
    assert rouge_n([5, UNK, 6], [5, UNK, 6], n=2) == 0.0
    assert rouge_l([], [5]) == rouge_l([5], []) == rouge_l([], []) == 0.0
