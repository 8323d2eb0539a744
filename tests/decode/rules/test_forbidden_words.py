"""Rules, wanted words, coverage, diversity, ensembles: against exhaustive search and loops."""

import itertools
import math

import pytest
import torch
from torch import nn

from regard import watch
from regard.decode import Beam, Ensemble, Greedy, Sample
from regard.decode.coverage import LEAST
from regard.decode.rules.forbidden_words import Avoid
from regard.decode.rules.forced_words import met
from regard.errors import RequestError
from regard.models.rnnsearch import RNNsearch
from regard.models.transformer import Transformer
from regard.protocols import BOS, EOS
from tests.decode.toy import Fixed, Markov, everything, rescore

SOURCES = torch.tensor([[4, 3, 2, 0, 0], [3, 2, 0, 0, 0], [4, 4, 4, 2, 0], [3, 4, 3, 3, 2]])
LONGEST = 5
EVERY = Beam(3**LONGEST, n_best=8, length_penalty=0.0, max_length=LONGEST)


def has(tokens, phrase):
    """Is `phrase` in `tokens`, in a row?"""
    size = len(phrase)
    return any(list(tokens[i : i + size]) == list(phrase) for i in range(len(tokens) - size + 1))


def avoiding(never):
    """The rule against sequences of ids, each id written as one letter of its own."""
    spelled = ["", "", "", *"abcdefghij"]
    return Avoid([["".join(spelled[i] for i in p) for p in own] for own in never], spelled)


def repeats(tokens, size):
    """Does a run of `size` tokens come twice? EOS does not count."""
    runs = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    runs = [run for run in runs if EOS not in run]
    return len(runs) > len(set(runs))


def truth(model, source, allowed, score=None):
    """All sequences that are allowed, best first: those that end before those that are cut."""
    score = score or (lambda tokens: math.fsum(rescore(model, source, list(tokens))))
    found = [(t[-1] != EOS, -score(t), list(t)) for t in everything(model.size, LONGEST)]
    return [tokens for *_, tokens in sorted(x for x in found if allowed(x[2]))]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_repeat_is_exhaustive_search_among_what_does_not_repeat(size):
    model = Markov(5, seed=size)
    beam = Beam(
        EVERY.beam_size, n_best=8, length_penalty=0.0, max_length=LONGEST, no_repeat_ngram=size
    )
    for source, found in zip(SOURCES, beam(model, SOURCES), strict=True):
        wanted = truth(model, source, lambda tokens: not repeats(tokens, size))
        assert [h.tokens for h in found] == wanted[:8]
        for h in found:
            assert h.token_scores == pytest.approx(rescore(model, source, h.tokens), abs=1e-5)


@pytest.mark.parametrize("decoder", [Greedy(), Sample(n_best=4, temperature=2.0), Beam(4)])
def test_every_decoder_obeys_the_rules(decoder):
    model = Markov(9, seed=4, sharp=0.3)
    never = [[[5]], [], [[6, 7], [8]], [[3, 3]]]
    rules = [avoiding(never)]
    longer = type(decoder)(**{**vars(decoder), "no_repeat_ngram": 2, "min_length": 6})
    found = longer(model, SOURCES, rules=rules)
    for phrases, hypotheses in zip(never, found, strict=True):
        for h in hypotheses:
            assert not repeats(h.tokens, 2)
            assert not any(has(h.tokens, phrase) for phrase in phrases)
    free = longer(model, SOURCES)
    assert any(h.tokens != f.tokens for h, f in zip(found[0], free[0], strict=True)) or not has(
        free[0][0].tokens, [5]
    )
    assert [h.tokens for h in found[1]] == [h.tokens for h in free[1]]  # where nothing is asked


def test_never_is_exhaustive_search_among_the_rest():
    model = Markov(5, seed=7)
    never = [[[3]], [[4, 4], [3, 4, 3]], [], [[4, 3]]]
    found = EVERY(model, SOURCES, rules=[avoiding(never)])
    for source, own, hypotheses in zip(SOURCES, never, found, strict=True):
        wanted = truth(model, source, lambda t, own=own: not any(has(t, p) for p in own))
        assert [h.tokens for h in hypotheses] == wanted[:8]


def test_a_word_is_avoided_however_it_is_cut():
    spelled = ["", "", "", " but", "ton", " button", "s", " buttons", "t", "on", " a button,"]
    rule = Avoid([[" button"]], spelled)

    def banned(*read):
        scores = rule(torch.zeros(1, 1, len(spelled)), torch.tensor([[read]]), torch.tensor([0]))
        return [spelled[i] for i in (scores[0, 0] == -math.inf).nonzero().flatten().tolist()]

    assert banned(BOS) == [" button", " a button,"]  # " buttons" is another word
    assert banned(3) == ["ton", " button", " a button,"]
    assert banned(3, 8) == [" button", "on", " a button,"]
    assert banned(6, 8) == [" button", " a button,"]


def test_repetition_multiplies_what_was_written_before():
    model, factor = Markov(5, seed=3), 1.7
    beam = Beam(
        EVERY.beam_size, n_best=4, length_penalty=0.0, max_length=LONGEST, repetition_penalty=factor
    )

    def score(source):
        def total(tokens):
            each = rescore(model, source, list(tokens))
            return math.fsum(
                s * factor if tokens[t] in tokens[:t] else s for t, s in enumerate(each)
            )

        return total

    for source, found in zip(SOURCES, beam(model, SOURCES), strict=True):
        wanted = truth(model, source, lambda tokens: True, score(source))
        assert [h.tokens for h in found] == wanted[:4]
        assert found[0].log_prob == pytest.approx(score(source)(found[0].tokens), abs=1e-5)


@pytest.mark.parametrize(
    "must",
    [
        [[[3]], [[4, 3]], [], [[3, 3], [4]]],
        [[[4, 4, 3]], [[3], [4]], [[3, 4, 3]], [[4, 3], [3, 4]]],
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_must_is_exhaustive_search_among_what_has_it(must, seed):
    model = Markov(5, seed=seed)
    found = EVERY(model, SOURCES, force_words=must)
    for source, own, hypotheses in zip(SOURCES, must, found, strict=True):
        wanted = truth(model, source, lambda t, own=own: all(has(t, p) for p in own))
        assert [h.tokens for h in hypotheses] == wanted[:8]


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("batch", [1, 4])
def test_a_small_beam_has_what_it_must(size, batch):
    # a model that all but never writes 7, 8 or 9
    model = Markov(10, seed=2, order=1)
    with torch.no_grad():
        model.table[..., 7:] -= 9.0
    must = [[[7, 8], [9]], [], [[8, 8, 9]], [[7]]]
    beam = Beam(size, max_length=12, no_repeat_ngram=3)
    found = [
        hypotheses
        for at in range(0, len(SOURCES), batch)
        for hypotheses in beam(model, SOURCES[at : at + batch], force_words=must[at : at + batch])
    ]
    for source, own, (h, *_) in zip(SOURCES, must, found, strict=True):
        assert all(has(h.tokens, phrase) for phrase in own)
        assert h.token_scores == pytest.approx(rescore(model, source, h.tokens), abs=1e-4)
        assert len(h.tokens) <= 12
    assert found[1][0].tokens == beam(model, SOURCES[1:2])[0][0].tokens


def test_what_is_met_is_counted_once():
    assert met([], [[3]]) == 0
    assert met([3, 4], [[3, 4, 5], [4]]) == 3
    assert met([3, 4, 6], [[3, 4, 5], [4]]) == 1  # the beginning was broken off
    assert met([3, 3, 4], [[3, 4]]) == 2
    twice = Beam(4)(Markov(5), SOURCES[:1], force_words=[[[3], [3]]])[0][0]
    assert has(twice.tokens, [3])


def test_the_limit_is_raised_for_what_must_be_there():
    (found,) = Beam(4, max_length=2)(Markov(6), SOURCES[:1], force_words=[[[3, 4, 5, 3]]])
    assert found[0].tokens == [3, 4, 5, 3, EOS]


def test_a_prefix_and_what_must_follow():
    (found,) = Beam(3)(
        Markov(7), SOURCES[:1], prefix=[[5, 5]], force_words=[[[6]]], rules=[avoiding([[[5]]])]
    )
    assert found[0].tokens[:2] == [5, 5]
    assert has(found[0].tokens, [6])
    assert 5 not in found[0].tokens[2:]


def test_where_nothing_is_allowed_there_is_no_hypothesis():
    model = Markov(5)
    never = [[[3], [4]], []]
    for decoder in (Beam(2, min_length=3), Greedy(min_length=3), Sample(min_length=3)):
        none, some = decoder(model, SOURCES[:2], rules=[avoiding(never)])
        assert not none
        assert some


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"force_words": [[[3]]]},
            "force_words: expected one list of ids a sentence, 4 in all, got 1",
        ),
        (
            {"force_words": [[[]], [], [], []]},
            "force_words: sentence 0 has a phrase without a token",
        ),
        ({"force_words": [[], [[EOS]], [], []]}, "force_words: sentence 1 is given id 2"),
    ],
)
def test_wrong_wishes(asked, message):
    with pytest.raises(RequestError, match=message):
        Beam(2)(Markov(5), SOURCES, **asked)


def test_only_a_beam_can_be_asked_for_words():
    with pytest.raises(RequestError, match="only a beam"):
        Greedy()(Markov(5), SOURCES, force_words=[[[3]]] * 4)


def test_diversity_fills_the_beam_from_more_parents():
    model = Markov(12, seed=1, sharp=0.7)
    for source in SOURCES:
        plain, diverse = (
            Beam(6, n_best=6, length_penalty=0.0, max_length=6, diversity_rate=gamma)(
                model, source[None]
            )[0]
            for gamma in (0.0, 5.0)
        )
        heads = [len({tuple(h.tokens[:2]) for h in some}) for some in (plain, diverse)]
        assert heads[1] >= heads[0]
        for h in diverse:  # scores stay the model's own
            assert h.token_scores == pytest.approx(rescore(model, source, h.tokens), abs=1e-5)
    large = Beam(3, n_best=3, diversity_rate=1e6, length_penalty=0.0)(model, SOURCES[:1])[0]
    assert large  # each hypothesis is continued by its best token alone, and still ends


def models():
    """Two models of other architectures over the same vocabularies, and sharp ones."""
    torch.manual_seed(0)
    small = {"dropout": 0.0}
    first = RNNsearch(11, 11, embed=8, hidden=8, align=8, maxout=8, **small)
    second = Transformer(11, 11, dim=16, heads=2, layers=2, ffn_dim=16, **small)
    for model in (first, second):
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5)
    return first.eval(), second.eval()


IDS = torch.tensor([[5, 6, 7, EOS, 0], [8, 9, EOS, 0, 0], [4, 5, 10, 10, EOS]])


@pytest.mark.parametrize("which", [0, 1])
def test_coverage_is_what_the_attention_says(which):
    model, beta = models()[which], 2.0
    beam = Beam(4, n_best=4, length_penalty=0.8, coverage_penalty=beta, max_length=7)
    found = beam(model, IDS)
    moved = False
    for ids, hypotheses in zip(IDS, found, strict=True):
        source = ids[ids != 0][None]
        plain = Beam(4, n_best=4, length_penalty=0.8, max_length=7)(model, source)[0]
        for h in hypotheses:
            with watch(model) as seen, torch.no_grad():
                model(source, torch.tensor([[BOS, *h.tokens[:-1]]]))
            # the last attention to the source: its one layer, or the decoder's last cross-attention
            cross = [n for n, r in seen.items() if r.of(0).shape[-1] == source.shape[1]
                     and r.of(0).shape[-2] == len(h.tokens)]  # fmt: skip
            spent = seen[cross[-1]].of(0).mean(0).sum(0)
            cp = beta * float(spent.clamp(LEAST, 1).log().sum())
            expected = h.log_prob / len(h.tokens) ** 0.8 + cp
            assert h.score == pytest.approx(expected, abs=1e-4)
        scores = [h.score for h in hypotheses if h.finished]
        assert scores == sorted(scores, reverse=True)
        moved |= [h.tokens for h in hypotheses] != [h.tokens for h in plain]
    assert moved


def test_coverage_needs_a_model_that_looks():
    with pytest.raises(RequestError, match="looks at no source"):
        Beam(2, coverage_penalty=0.2)(Markov(5), SOURCES)


@pytest.mark.parametrize("decoder", [Greedy(), Beam(3, n_best=3), Beam(3, coverage_penalty=0.2)])
def test_an_ensemble_is_the_mean_of_the_probabilities(decoder):
    pair = models()
    together = Ensemble(pair)
    for ids, hypotheses in zip(IDS, decoder(together, IDS), strict=True):
        source = ids[ids != 0][None]
        for h in hypotheses:
            read = torch.tensor([[BOS, *h.tokens[:-1]]])
            with torch.no_grad():
                each = [m(source, read).logits[0].double().softmax(-1) for m in pair]
            mean = (sum(each) / 2).log()
            true = [float(mean[t, token]) for t, token in enumerate(h.tokens)]
            assert h.token_scores == pytest.approx(true, abs=1e-4)
    one = Ensemble([pair[0]])
    assert [h.tokens for (h, *_) in decoder(one, IDS)] == [
        h.tokens for (h, *_) in decoder(pair[0], IDS)
    ]


def test_an_ensemble_of_other_vocabularies_is_refused():
    first, _ = models()
    other = RNNsearch(11, 12, embed=8, hidden=8, align=8, maxout=8)
    with pytest.raises(RequestError, match="11 -> 11 and 11 -> 12"):
        Ensemble([first, other])
    with pytest.raises(RequestError, match="got none"):
        Ensemble([])


def test_rules_do_not_depend_on_the_batch():
    model = Markov(9, seed=5)
    must, never = [[[5]], [[6, 7]], [], [[8]]], [[[3]], [], [[4]], []]
    beam = Beam(4, n_best=4, no_repeat_ngram=2, repetition_penalty=1.2)
    together = beam(model, SOURCES, force_words=must, rules=[avoiding(never)])
    for n, own in enumerate(together):
        rules = [avoiding([never[n]])]
        (alone,) = beam(model, SOURCES[n : n + 1], force_words=[must[n]], rules=rules)
        assert [h.tokens for h in own] == [h.tokens for h in alone]
        assert [h.score for h in own] == pytest.approx([h.score for h in alone], abs=1e-6)


def test_a_fixed_loop_is_broken():
    model = Fixed(5, lambda read: [0, 0, 0.01, 0.9, 0.09])
    (looping,) = Greedy(max_length=8)(model, SOURCES[:1])
    assert looping[0].tokens == [3] * 8
    (broken,) = Greedy(max_length=8, no_repeat_ngram=2)(model, SOURCES[:1])
    assert not repeats(broken[0].tokens, 2)
    assert list(itertools.islice(broken[0].tokens, 2)) == [3, 3]
