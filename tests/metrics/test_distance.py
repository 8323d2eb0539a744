"""Edit distance against the table written out, and against rapidfuzz where it is installed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics import edit_distance, nearest_variant

words = st.lists(st.sampled_from("abcd"), max_size=12)
long_words = st.lists(st.integers(0, 20), min_size=60, max_size=150)


def by_table(a, b):
    """The recurrence as printed, one cell at a time."""
    d = [[i + j if i * j == 0 else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            swap = d[i - 1][j - 1] + (a[i - 1] != b[j - 1])
            d[i][j] = min(d[i - 1][j] + 1, d[i][j - 1] + 1, swap)
    return d[-1][-1]


@given(words, words)
@settings(max_examples=150, deadline=None)
def test_short_sequences_agree_with_the_table(a, b):
    assert edit_distance(a, b) == by_table(a, b)


@given(long_words, long_words)
@settings(max_examples=20, deadline=None)
def test_sequences_longer_than_a_machine_word_agree_with_the_table(a, b):
    assert edit_distance(a, b) == by_table(a, b)


def test_agrees_with_rapidfuzz():
    fuzz = pytest.importorskip("rapidfuzz.distance").Levenshtein
    import random

    draw = random.Random(3)
    for _ in range(200):
        a, b = ([draw.randrange(9) for _ in range(draw.randrange(200))] for _ in range(2))
        assert edit_distance(a, b) == fuzz.distance(a, b)


@pytest.mark.parametrize(
    ("a", "b", "distance"), [("", "", 0), ("", "abc", 3), ("ab", "", 2), ("ab", "ba", 2)]
)
def test_empty_and_swapped(a, b, distance):
    assert edit_distance(a, b) == distance


def test_the_first_of_equally_near_variants_is_taken():
    assert nearest_variant("ab", ["abc", "xb", "a"]) == (0, 1)
    assert nearest_variant("ab", ["xy", "xb", "abc"]) == (1, 1)


def test_the_nearest_variant_is_not_the_first():
    assert nearest_variant("abc", ["xyz", "abd", "abc"]) == (2, 0)
