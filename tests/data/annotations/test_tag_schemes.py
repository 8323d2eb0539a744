"""Schemes of tags: exact both ways, against a description of each scheme word by word."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.annotations.tag_schemes import (
    SCHEMES,
    allowed,
    convert,
    repaired,
    scheme_of,
    spans_of,
    tags_of,
    wrong,
)
from regard.errors import RequestError

NAMES = sorted(SCHEMES)
LETTERS = {"iob1": "BI", "iob2": "BI", "iobes": "BIES", "bilou": "BILU"}


ANY = ["O", "B-A", "I-A", "I-B", "E-A", "S-B", "L-A", "U-A", "B", "I", "?", "X-A", "B-"]


@st.composite
def spans(draw):
    """Spans of a sentence, often touching, and its length."""
    found, place = [], 0
    for gap, size, label in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from(["A", "C-A", ""])))
    ):
        found.append((place + gap, place + gap + size, label))
        place += gap + size
    return found, place + draw(st.integers(0, 2))


def every_sentence(length: int, scheme: str) -> dict[tuple[str, ...], list]:
    """Brute force: the tags of all sets of spans with labels A and B, written out by hand."""

    def word(found, start, end, label, place):
        if scheme == "iob1":
            touched = any(e == start and other == label for _, e, other in found)
            return "B" if place == start and touched else "I"
        if scheme == "iob2":
            return "B" if place == start else "I"
        last, only = ("E", "S") if scheme == "iobes" else ("L", "U")
        if end - start == 1:
            return only
        return "B" if place == start else last if place == end - 1 else "I"

    def grow(place):
        if place == length:
            yield []
            return
        yield from grow(place + 1)
        for end in range(place + 1, length + 1):
            for label, rest in itertools.product("AB", list(grow(end))):
                yield [(place, end, label), *rest]

    told = {}
    for found in grow(0):
        tags = ["O"] * length
        for start, end, label in found:
            for place in range(start, end):
                tags[place] = f"{word(found, start, end, label, place)}-{label}"
        told[tuple(tags)] = found
    return told


@pytest.mark.parametrize("scheme", NAMES)
@pytest.mark.parametrize("length", [1, 2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_all_sentences_of_two_labels(scheme, length):
    """Of all sequences of tags exactly those are valid that some spans have, and they give them."""
    told = every_sentence(length, scheme)
    names = ["O", *[f"{letter}-{label}" for letter in LETTERS[scheme] for label in "AB"]]
    between, start, end = allowed(names, scheme)
    for ids in itertools.product(range(len(names)), repeat=length):
        tags = tuple(names[i] for i in ids)
        chain = (
            start[ids[0]]
            and end[ids[-1]]
            and all(between[a, b] for a, b in itertools.pairwise(ids))
        )
        assert bool(chain) == (tags in told), tags
        if tags in told:
            assert wrong(tags, scheme) is None
            assert spans_of(tags, scheme) == told[tags]
            assert tags_of(told[tags], length, scheme) == list(tags)
        else:
            assert wrong(tags, scheme) is not None
            with pytest.raises(RequestError, match="expected tags in"):
                spans_of(tags, scheme)


@given(spans(), st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_conversions_are_exact_both_ways(told, first, second):
    found, length = told
    tags = tags_of(found, length, first)
    other = convert(tags, first, second)
    assert convert(other, second, first) == tags
    assert spans_of(other, second) == found
    assert other == tags_of(found, length, second)


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(ANY)),
    st.sampled_from(NAMES),
)
def test_repaired_tags_are_valid_and_valid_ones_stay(tags, scheme):
    made = repaired(tags, scheme)
    assert len(made) == len(tags)
    assert wrong(made, scheme) is None
    assert repaired(made, scheme) == made
    if wrong(tags, scheme) is None:
        assert made == tags
    for tag, was in zip(made, tags, strict=True):
        known = was != "O" and was[0] in "BIESLU" and was != "B-" and was != "?"
        assert (tag != "O") == known
        assert not known or tag.partition("-")[2] == was.partition("-")[2]


@pytest.mark.parametrize(
    ("tags", "scheme", "place", "why"),
    [
        ("O I-A", "bio", 1, "'I-A' behind 'O'"),
        ("I-A", "bio", 0, "'I-A' behind the beginning"),
        ("B-A", "iob1", 0, "'B-A' behind the beginning"),
        ("I-A B-B", "iob1", 1, "'B-B' behind 'I-A'"),
        ("B-A O", "iobes", 1, "'O' behind 'B-A'"),
        ("O B-A", "bilou", 1, "'B-A' at the end of the sentence"),
        ("O E-A", "iob2", 1, "'E-A'"),
        ("O B-", "iob2", 1, "'B-'"),
        ("O PER", "iob2", 1, "'PER'"),
    ],
)
def test_what_is_wrong(tags, scheme, place, why):
    assert wrong(tags.split(), scheme) == (place, why)
    with pytest.raises(RequestError, match=f"word {place + 1} has"):
        spans_of(tags.split(), scheme)


def test_tags_without_a_label():
    assert spans_of(["B", "I", "B", "O"]) == [(0, 2, ""), (2, 3, "")]
    assert convert(["B", "I", "B", "O"], "bio", "iobes") == ["B", "E", "S", "O"]


def test_what_cannot_be_written():
    for bad in ([(0, 2, "A"), (1, 3, "A")], [(0, 4, "A")], [(1, 1, "A")], [(-1, 1, "A")]):
        with pytest.raises(RequestError, match="apart from each other in 3 words"):
            tags_of(bad, 3)
    with pytest.raises(RequestError, match="did you mean 'iobes'"):
        scheme_of("iobs")
    with pytest.raises(RequestError, match=r"got 'S-A'"):
        allowed(["O", "S-A"], "bio")
    assert scheme_of("bio").name == "iob2"


def test_no_words_and_no_tags():
    assert spans_of([]) == repaired([]) == tags_of([], 0) == []
    between, start, end = allowed([])
    assert between.shape == (0, 0)
    assert start.shape == end.shape == (0,)
    assert between.dtype == np.bool_
