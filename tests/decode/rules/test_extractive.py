"""ABS+: the features of a summary against counting, the rule against exhaustive search."""

import itertools
import math

import numpy as np
import pytest
import torch

from regard.decode import Beam, Greedy
from regard.decode.rules.extractive import FEATURES, Extraction, never
from regard.errors import RequestError
from regard.protocols import EOS, UNK
from tests.decode.toy import Fixed, Markov, everything, rescore

LONGEST = 4
WEIGHTS = {"unigram": 0.7, "bigram": -0.4, "trigram": 1.1, "reordered": -0.9, "length": 0.3}


def counted(source, tokens):
    """The features as they are printed, word by word."""
    words = [t for t in tokens if t != EOS]
    runs = [
        {tuple(source[i : i + n]) for i in range(len(source) - n + 1)} - {()} for n in (1, 2, 3)
    ]
    runs = [{run for run in own if min(run) > UNK} for own in runs]
    found = [0.0] * 5
    for i, word in enumerate(words):
        for n in (1, 2, 3):
            found[n - 1] += i + 1 >= n and tuple(words[i + 1 - n : i + 1]) in runs[n - 1]
        if i:
            mine = [k for k, w in enumerate(source) if w == word and w > UNK]
            theirs = [k for k, w in enumerate(source) if w == words[i - 1] and w > UNK]
            found[3] += bool(mine and theirs) and max(mine) < min(theirs)
        found[4] += 1
    return found


def test_features_are_those_of_the_equation():
    generator = np.random.default_rng(1)
    seen = np.zeros(5)
    for _ in range(500):
        source = generator.integers(3, 8, generator.integers(0, 7)).tolist()
        tokens = [*generator.integers(3, 8, generator.integers(0, 6)).tolist(), EOS]
        found = Extraction([source], {}).features(0, tokens)
        assert found.tolist() == counted(source, tokens)
        seen += found > 0
    assert seen.min() >= 5


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_beam_search_is_exhaustive_search_under_the_weights(seed):
    model = Markov(6, seed=seed)
    sources = torch.tensor([[4, 5, 4, 2], [5, 2, 0, 0], [3, 4, 5, 2]])
    own = [[4, 5, 4], [5], [3, 4, 5]]
    rule = Extraction(own, WEIGHTS)
    beam = Beam(4**LONGEST, n_best=6, length_penalty=0.0, max_length=LONGEST)
    for row, found in enumerate(beam(model, sources, rules=[rule])):
        alpha = list(WEIGHTS.values())

        def score(tokens, row=row, alpha=alpha):
            plain = math.fsum(rescore(model, sources[row], list(tokens)))
            return plain + float(np.dot(alpha, counted(own[row], tokens)))

        every = [list(t) for t in everything(6, LONGEST) if t[-1] == EOS]
        wanted = sorted(every, key=lambda t: -score(t))[:6]
        assert [h.tokens for h in found] == wanted
        for h in found:
            assert h.log_prob == pytest.approx(score(h.tokens), abs=1e-4)
            plain = math.fsum(rescore(model, sources[row], h.tokens))
            assert rule.own(row, h.tokens, h.log_prob) == pytest.approx(plain, abs=1e-4)


def test_a_search_goes_on_while_what_is_taken_over_may_still_win():
    """The end is likeliest at once, and the whole source is worth more than it."""
    source = [4, 5, 6, 7, 8]
    model = Fixed(9, lambda read: [0.0, 0.0, 0.9, 0.0, *[0.02] * 5])
    rule = Extraction([source], {"unigram": 2.5, "bigram": 2.5})
    assert rule.gain == 5.0
    beam = Beam(5, length_penalty=0.0, max_length=6)
    ((best,),) = beam(model, torch.tensor([[*source, 2]]), rules=[rule])
    assert best.tokens == [*source, EOS]
    assert Extraction([source], {"unigram": 2.5, "length": -3.0, "reordered": -1.0}).gain == 0.0


def test_no_weights_change_nothing():
    model, sources = Markov(6, seed=4), torch.tensor([[4, 5, 4, 2]])
    beam = Beam(4, n_best=4, max_length=LONGEST)
    plain, ruled = (
        beam(model, sources, rules=rules)[0] for rules in ([], [Extraction([[4, 5, 4]], {})])
    )
    assert [h.tokens for h in plain] == [h.tokens for h in ruled]
    for one, two in zip(plain, ruled, strict=True):
        assert one.token_scores == pytest.approx(two.token_scores, abs=1e-5)


def test_words_of_the_source_alone():
    """A great weight of unigrams and trigrams writes the source off, whatever the model says."""
    source = [4, 7, 5, 8, 6]
    rule = Extraction([source], {"unigram": 50.0, "bigram": 50.0, "trigram": 50.0})
    beam = Beam(40, length_penalty=0.0, max_length=6, min_length=6)
    ((best,),) = beam(Markov(9, seed=5), torch.tensor([[*source, 2]]), rules=[rule])
    assert best.tokens == [*source, EOS]


def test_ids_that_the_vocabulary_lacks_and_unknown_words_break_the_runs():
    rule = Extraction([[4, UNK, 5, 90, 6]], dict.fromkeys(FEATURES, 1.0))
    assert rule.features(0, [4, UNK, 5, 6]).tolist() == [3, 0, 0, 0, 4]
    scores = rule(torch.zeros(1, 1, 8), torch.tensor([[[5]]]), torch.tensor([0]))
    assert scores[0, 0].tolist() == [0, 0, 0, 1, 3, 2, 2, 1]


def test_what_is_never_written():
    model, sources = Markov(6, seed=3), torch.tensor([[4, 5, 4, 2], [5, 2, 0, 0]])
    plain = itertools.chain(*(h.tokens for (h,) in Greedy(min_length=4)(model, sources)))
    assert {4, 5} & {*plain}
    ruled = Greedy(min_length=4)(model, sources, rules=[never(4, 5)])
    assert not {4, 5} & {*itertools.chain(*(h.tokens for (h,) in ruled))}


def test_weights_that_mean_nothing():
    with pytest.raises(RequestError, match="no feature 'bigrams'; did you mean 'bigram'"):
        Extraction([], {"bigrams": 1.0})
    with pytest.raises(RequestError, match="expected a number for 'bigram', got nan"):
        Extraction([], {"bigram": math.nan})
