"""Features of pairs: values by hand, and against slow computations of one pair at a time."""

import json
import math
import random
from collections import Counter

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from regard.data.pairs.sentence_features import PairFeatures
from regard.errors import RequestError
from regard.metrics import edit_distance
from tests.data.wordnet_files import small

KINDS = list(PairFeatures.KINDS)


@pytest.fixture(autouse=True)
def wordnet(tmp_path, monkeypatch):
    monkeypatch.setenv("WNSEARCHDIR", str(small(tmp_path)))


def pair(a, b):
    return a.split(), b.split()


def row(kind, a, b):
    return PairFeatures([kind]).of([pair(a, b)])[0]


@pytest.fixture(scope="module")
def many():
    """300 pairs of sentences of 0 to 12 of few words, some of them equal."""
    draw = random.Random(5)
    words = ["The", "the", "dog", "Cat", "runs", "n't", "not", "3", "1,000", "$5", "sleeps", "a"]

    def sentence():
        return draw.choices(words, k=draw.randrange(13))

    pairs = [(sentence(), sentence()) for _ in range(295)]
    same = sentence()
    return [*pairs, (same, same), ([], []), ([], ["a"]), (["a"], []), (["a"], ["A"])]


def low(words):
    return [word.lower() for word in words]


def test_lengths_by_hand():
    expected = [math.log(4) / 4, math.log(3) / 4, 2 / 3, 1 / 3]
    np.testing.assert_allclose(row("lengths", "a b c", "a b"), expected, rtol=1e-6)


def test_overlap_by_hand():
    # Words a, b, c and a, b, d, e: 2 shared of 3, 4 and 5. 2-grams: ab of 2, 3 and 4.
    found = row("overlap", "a b c", "A b d e")
    expected = [2 / 3, 2 / 4, 2 / 5, 1 / 2, 1 / 3, 1 / 4, 0, 0, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    # Repeated words count once; 2-grams aa, ab; 3-grams aab.
    np.testing.assert_allclose(
        row("overlap", "a a b", "a a"), [1 / 2, 1, 1 / 2, 1 / 2, 1, 1 / 2, 0, 0, 0], rtol=1e-6
    )


def test_overlap_against_sets(many):
    found = PairFeatures(["overlap"]).of(many)
    for got, (a, b) in zip(found, many, strict=True):
        expected = []
        for n in (1, 2, 3):
            one, two = ({tuple(low(s)[i : i + n]) for i in range(len(s) - n + 1)} for s in (a, b))
            both = len(one & two)
            expected += [both / max(1, len(of)) for of in (one, two, one | two)]
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_idf_by_hand():
    train = [pair("a b", "a c"), pair("A B", "a d")]  # three different sentences
    features = PairFeatures(["idf-overlap"]).learn(train)
    a, b, new = 1 + math.log(4 / 4), 1 + math.log(4 / 2), 1 + math.log(4 / 1)
    shares = [(a + b) / (a + b + new), 1, (a + b) / (a + b + new)]
    cosine = (2 * a * a + b * b) / math.sqrt((4 * a * a + b * b + new * new) * (a * a + b * b))
    found = features.of([pair("a a b x", "a b")])[0]
    np.testing.assert_allclose(found, [*shares, cosine], rtol=1e-6)
    unlearned = PairFeatures(["idf-overlap"]).of([pair("a b", "a c")])[0]
    np.testing.assert_allclose(unlearned, [1 / 2, 1 / 2, 1 / 3, 1 / 2], rtol=1e-6)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("There is No dog", "a dog", [1, 0, 1]),
        ("it does n't", "it doesn’t", [1, 1, 0]),
        ("notes know", "nota", [0, 0, 0]),
        ("", "never", [0, 1, 1]),
    ],
)
def test_negation_by_hand(a, b, expected):
    assert row("negation", a, b).tolist() == expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("up", "down", [1, 0, 0, 0, 0, 0]),
        ("$1,000 in 1999", "1999 with 1000", [1, 1, 0, 1, 0, 0]),
        ("26.8 in 3", "26.8", [0, 0, 1, 0.5, 1, 0]),
        ("none", "3", [0, 0, 1, 0, 0, 1]),
        ("1 2", "2 3", [0, 0, 0, 1 / 3, 1, 1]),
    ],
)
def test_numbers_by_hand(a, b, expected):
    np.testing.assert_allclose(row("numbers", a, b), expected, rtol=1e-6)


def test_characters_by_hand():
    # "a" is " a ", alone in one of two sentences; "ab" is " ab", "ab " and " ab ".
    features = PairFeatures(["characters"]).learn([pair("A", "c")])
    a, new = 1 + math.log(3 / 2), 1 + math.log(3 / 1)
    # " a ab " has " a ", "a a", " ab", "ab ", then 4-grams " a a", "a ab", " ab ", 5-grams 2 more.
    expected = a / math.sqrt(a * a + 8 * new * new)
    np.testing.assert_allclose(features.of([pair("a", "a ab")])[0], [expected], rtol=1e-6)
    expected = math.sqrt(3 / 8) * new / math.sqrt(new * new + a * a / 8)
    np.testing.assert_allclose(features.of([pair("a ab", "ab")])[0], [expected], rtol=1e-6)


def test_characters_against_counters(many):
    """The slow form knows no buckets, which few of these n-grams share."""
    features = PairFeatures(["characters"]).learn(many[:100])

    def grams(words):
        text = f" {' '.join(low(words))} "
        return Counter(text[i : i + n] for n in (3, 4, 5) for i in range(len(text) - n + 1))

    seen = {tuple(low(s)) for p in many[:100] for s in p}
    df = Counter(g for s in seen for g in {*grams(s)})
    every = {g for p in many for s in p for g in grams(s)}
    idf = {g: 1 + math.log((1 + len(seen)) / (1 + df[g])) for g in every}

    def dot(one, two):
        return sum(n * two[g] * idf[g] ** 2 for g, n in one.items())

    expected = []
    for one, two in ((grams(a), grams(b)) for a, b in many):
        below = math.sqrt(dot(one, one) * dot(two, two))
        expected.append(dot(one, two) / below if below else 0)
    gap = abs(features.of(many)[:, 0] - expected)
    assert gap.max() < 1e-2
    assert (gap < 1e-3).mean() > 0.9
    unlearned = PairFeatures(["characters"])
    idf = dict.fromkeys(every, 1.0)  # without counts there is nothing to share
    below = [math.sqrt(dot(grams(a), grams(a)) * dot(grams(b), grams(b))) for a, b in many]
    expected = [
        dot(grams(a), grams(b)) / of if of else 0 for (a, b), of in zip(many, below, strict=True)
    ]
    np.testing.assert_allclose(unlearned.of(many)[:, 0], expected, atol=1e-6)


def test_bleu_against_sacrebleu(many):
    found = PairFeatures(["bleu"]).of(many)
    for got, (a, b) in zip(found, many, strict=True):
        for start, (said, true) in ((0, (a, b)), (4, (b, a))):
            for n in range(1, 5):
                bleu = BLEU(
                    max_ngram_order=n, smooth_method="add-k", smooth_value=1, tokenize="none"
                )
                wanted = bleu.corpus_score([" ".join(low(said))], [[" ".join(low(true))]])
                assert got[start + n - 1] == pytest.approx(wanted.score / 100, abs=1e-6)


def slow_common(a, b):
    if not a or not b:
        return 0
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
            )
    return table[-1][-1]


def test_edit_against_tables(many):
    found = PairFeatures(["edit"]).of(many)
    for got, (a, b) in zip(found, many, strict=True):
        a, b = low(a), low(b)
        common = slow_common(a, b)
        expected = [
            edit_distance(a, b) / max(1, len(a), len(b)), common / max(1, len(a)),
            common / max(1, len(b)),
        ]  # fmt: skip
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_neighbors_change_nothing(many, monkeypatch):
    features = PairFeatures(KINDS).learn(many)
    together = features.of(many)
    assert together.shape == (len(many), features.width)
    assert together.dtype == np.float32
    assert np.isfinite(together).all()
    alone = np.concatenate([features.of([one]) for one in many[::10]])
    np.testing.assert_array_equal(together[::10], alone)
    monkeypatch.setattr("regard.data.pairs.sentence_features._AT_ONCE", 7)
    monkeypatch.setattr("regard.data.pairs.sentence_features._CELLS", 20)
    np.testing.assert_array_equal(features.of(many), together)
    np.testing.assert_array_equal(PairFeatures(KINDS).learn(many).of(many), together)
    assert features.of([]).shape == (0, features.width)


def test_kinds_are_joined_in_order(many):
    each = [PairFeatures([kind]).learn(many).of(many) for kind in KINDS]
    np.testing.assert_array_equal(PairFeatures(KINDS).learn(many).of(many), np.hstack(each))
    turned = PairFeatures(KINDS[::-1]).learn(many).of(many)
    np.testing.assert_array_equal(turned, np.hstack(each[::-1]))
    assert PairFeatures([]).of(many).shape == (len(many), 0)


@pytest.mark.parametrize("kinds", [KINDS, ["lengths"], ["characters"]])
def test_saved_and_restored(many, kinds):
    features = PairFeatures(kinds).learn(many)
    other = PairFeatures.restored(json.loads(json.dumps(features.state())))
    assert other.kinds == tuple(kinds)
    np.testing.assert_array_equal(other.of(many), features.of(many))
    unlearned = PairFeatures.restored(json.loads(json.dumps(PairFeatures(kinds).state())))
    np.testing.assert_array_equal(unlearned.of(many), PairFeatures(kinds).of(many))


def test_what_cannot_be():
    with pytest.raises(RequestError, match="'overlop'; did you mean 'overlap'"):
        PairFeatures(["overlop"])
    with pytest.raises(RequestError, match="'edit' twice"):
        PairFeatures(["edit", "edit"])
    good = PairFeatures(["characters"]).learn([pair("a", "b")]).state()
    for change in (
        {"grams": [1]}, {"sentences": "many"}, {"words": {"a": 9}}, {"words": []}, {"kinds": 3},
        {"sentences": 0},
    ):  # fmt: skip
        with pytest.raises(RequestError, match="state of pair features"):
            PairFeatures.restored({**good, **change})
    with pytest.raises(RequestError, match="state of pair features"):
        PairFeatures.restored({})
