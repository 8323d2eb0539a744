"""The bag of n-grams against its equations, with sets in Python."""

import numpy as np
import pytest
import torch

from regard.errors import RequestError
from regard.models.bag_of_ngrams import BagOfNgrams, BagOfNgramsPair
from regard.protocols import Inputs
from tests.models.slow import numbers, ragged, sentences, shaken

MASK = (1 << 64) - 1


def signed(x):
    return x - (1 << 64) if x >> 63 else x


def row_of(words, buckets, vocabulary=12):
    """The row of an n-gram, by the hash in whole numbers of Python."""
    if len(words) == 1:
        return words[0]
    mixed = words[0]
    for word in words[1:]:
        mixed = signed((mixed * 0x9E3779B97F4A7C1 + word) & MASK)
    return vocabulary + (mixed ^ (mixed >> 31)) % buckets


def grams(ids, longest, buckets):
    """The rows of the distinct n-grams of a text."""
    ids = [int(i) for i in ids]
    return {
        row_of(ids[at : at + n], buckets)
        for n in range(1, longest + 1) for at in range(len(ids) - n + 1)
    }  # fmt: skip


def weighed(table, rows):
    return sum((table[g] for g in rows), np.zeros(table.shape[1]))


@pytest.mark.parametrize(("longest", "buckets"), [(1, 1), (2, 50), (3, 7)])
def test_it_computes_the_sums_of_distinct_ngrams(longest, buckets):
    net = shaken(BagOfNgrams(12, 5, ngrams=longest, buckets=buckets))
    source, lengths, _ = ragged()
    source[:, 1] = source[:, 0]  # a word that is there twice counts once
    found = net(source, lengths).logits.detach().numpy()
    p = numbers(net)
    for row, ids in enumerate(sentences(source, lengths)):
        own = grams(ids, longest, buckets)
        expected = p["bias"] + weighed(p["bags.weight"][0], own) / np.sqrt(len(own))
        np.testing.assert_allclose(found[row], expected, atol=1e-12)


@pytest.mark.parametrize("longest", [1, 2])
def test_a_pair_is_what_both_have_and_what_one_alone_has(longest):
    net = shaken(BagOfNgramsPair(12, 3, 2, ngrams=longest, buckets=50))
    source, lengths, _ = ragged()
    other, others = source.flip(0), lengths.flip(0)
    features = torch.randn(len(source), 2, dtype=torch.float64)
    given = Inputs(source, lengths, {"features": features})
    found = net(given, Inputs(other, others)).logits.detach().numpy()
    p = numbers(net)
    both, first, second = p["bags.weight"]
    rows = zip(sentences(source, lengths), sentences(other, others), strict=True)
    for row, (one, two) in enumerate(rows):
        a, b = grams(one, longest, 50), grams(two, longest, 50)
        total = weighed(both, a & b) + weighed(first, a - b) + weighed(second, b - a)
        expected = p["bias"] + p["features.weight"] @ features[row].numpy()
        expected = expected + total / np.sqrt(len(a | b))
        np.testing.assert_allclose(found[row], expected, atol=1e-12)


def test_words_behind_the_end_are_not_read():
    net = shaken(BagOfNgrams(12, 5, ngrams=3, buckets=50))
    lengths = torch.tensor([2, 1, 0])
    source = torch.tensor([[5, 6, 7, 8], [5, 9, 9, 9], [4, 4, 4, 4]])
    found = net(source, lengths).logits
    torch.testing.assert_close(found[0], net(source[:1, :2]).logits[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(found[2], net.bias, rtol=0, atol=0)


def test_bfloat16_weights_of_a_long_text_are_summed_in_float32():
    """2,000 rows of 0.01: in bfloat16 a sum stands still at 4."""
    net = BagOfNgrams(2100, 1, ngrams=1)
    torch.nn.init.constant_(net.bags.weight, 0.01)
    source = torch.arange(4, 2004)[None]
    found = net.bfloat16()(source).logits.float().item()
    assert found == pytest.approx(0.01 * 2000**0.5, rel=0.01)


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"ngrams": 0}, "ngrams: expected 1 or more, got 0"),
     ({"buckets": 0}, "buckets: expected 1 or more, got 0")],
)  # fmt: skip
def test_wrong_sizes_are_refused(settings, said):
    with pytest.raises(RequestError, match=said):
        BagOfNgrams(12, 5, **settings)


@pytest.mark.parametrize("pairs", [False, True])
def test_rare_ngrams_count_more_after_the_training_texts_were_counted(pairs):
    source, lengths, _ = ragged()
    kind = BagOfNgramsPair if pairs else BagOfNgrams
    net = shaken(kind(12, 5, ngrams=2, buckets=50, weighting="idf"))
    text = Inputs(source, lengths)
    labels = torch.zeros(len(source), dtype=torch.int64)
    net.count(iter([((text, text), labels)] if pairs else [((text,), labels), ((text,), labels)]))
    sets = [grams(ids, 2, 50) for ids in sentences(source, lengths)]
    every, idf = 2 * len(sets), np.zeros(net.bags.rows)
    for g in range(net.bags.rows):
        idf[g] = 1 + np.log((1 + every) / (1 + 2 * sum(g in own for own in sets)))
    np.testing.assert_allclose(net.bags.idf, idf, rtol=1e-6)
    table = numbers(net)["bags.weight"] * np.float32(idf)[:, None]
    found = (net(text, text) if pairs else net(text)).logits.detach().numpy()
    for row, own in enumerate(sets):
        size = np.sqrt(sum(idf[g] ** 2 for g in own))
        expected = net.bias.detach().numpy() + weighed(table[0], own) / size
        np.testing.assert_allclose(found[row], expected, rtol=1e-5, atol=1e-6)
    if not pairs:
        parts = net.parts(source[:1, : lengths[0]], lengths[:1])
        total = net.bias + sum(part for *_, part in parts)
        torch.testing.assert_close(total, net(source[:1], lengths[:1]).logits[0])


def ratios_of(sets, members, rows):
    """r_gc of sets of rows, by Python's numbers; `members` are the classes of each."""
    classes = len(members[0])
    seen = set().union(*sets)
    found = np.zeros((rows, classes))
    for c in range(classes):
        inside = {g: 1 + sum(m[c] for own, m in zip(sets, members, strict=True) if g in own)
                  for g in seen}  # fmt: skip
        outside = {g: 1 + sum(1 - m[c] for own, m in zip(sets, members, strict=True) if g in own)
                   for g in seen}  # fmt: skip
        p, q = sum(inside.values()), sum(outside.values())
        for g in seen:
            found[g, c] = np.log(inside[g] / p / (outside[g] / q))
    return found


@pytest.mark.parametrize("several", [False, True])
def test_log_count_ratios_weigh_ngrams_for_each_class(several):
    source, lengths, _ = ragged()
    net = shaken(BagOfNgrams(12, 3, ngrams=2, buckets=50, weighting="nb"))
    text = Inputs(source, lengths)
    labels = torch.arange(len(source)) % 3
    members = torch.nn.functional.one_hot(labels, 3)
    members[0, 1] = int(several)  # of two classes
    halves = [slice(0, 1), slice(1, None)]
    net.count(
        ((Inputs(source[at], lengths[at]),), members[at].float() if several else labels[at])
        for at in halves
    )
    sets = [grams(ids, 2, 50) for ids in sentences(source, lengths)]
    ratios = ratios_of(sets, members.tolist(), net.bags.rows)
    np.testing.assert_allclose(net.bags.ratios[0], ratios, rtol=1e-5, atol=1e-7)
    assert np.abs(ratios).max() > 0.1
    table = numbers(net)["bags.weight"][0] * ratios
    found = net(text).logits.detach().numpy()
    for row, own in enumerate(sets):
        size = np.sqrt(sum(ratios[g] ** 2 for g in own))
        expected = net.bias.detach().numpy() + weighed(table, own) / size
        np.testing.assert_allclose(found[row], expected, rtol=1e-5, atol=1e-6)
    parts = net.parts(source[:1, : lengths[0]], lengths[:1])
    total = net.bias + sum(part for *_, part in parts)
    torch.testing.assert_close(total, net(source[:1], lengths[:1]).logits[0])


def test_log_count_ratios_of_pairs_are_those_of_each_table():
    source, lengths, _ = ragged()
    net = shaken(BagOfNgramsPair(12, 2, weighting="nb"))
    one, two = Inputs(source, lengths), Inputs(source.flip(0), lengths.flip(0))
    labels = torch.arange(len(source)) % 2
    net.count([((one, two), labels)])
    first = [grams(ids, 1, 1) for ids in sentences(source, lengths)]
    second = first[::-1]
    members = torch.nn.functional.one_hot(labels, 2).tolist()
    pairs = list(zip(first, second, strict=True))
    for table, sets in enumerate(
        ([a & b for a, b in pairs], [a - b for a, b in pairs], [b - a for a, b in pairs])
    ):
        expected = ratios_of(sets, members, net.bags.rows)
        np.testing.assert_allclose(net.bags.ratios[table], expected, rtol=1e-5, atol=1e-7)


def test_a_text_of_unseen_ngrams_has_the_scores_of_the_bias():
    net = shaken(BagOfNgrams(12, 2, ngrams=1, weighting="nb"))
    net.count([((Inputs(torch.tensor([[4, 5]]), torch.tensor([2])),), torch.tensor([0]))])
    found = net(torch.tensor([[8, 9]])).logits[0]
    torch.testing.assert_close(found, net.bias, rtol=0, atol=0)


def test_log_count_ratios_of_grades_are_refused():
    net = BagOfNgrams(12, 2, ngrams=1, weighting="nb")
    text = Inputs(torch.tensor([[4, 5]]), torch.tensor([2]))
    with pytest.raises(RequestError, match="weighting: 'nb' compares classes"):
        net.count([((text,), torch.tensor([0.7]))])


def test_another_weighting_is_refused():
    with pytest.raises(RequestError, match="weighting: 'tfidf': did you mean 'idf'"):
        BagOfNgrams(12, 5, weighting="tfidf")
