"""Beam search against exhaustive search, teacher forcing, and itself in other batches."""

import itertools
import math

import pytest
import torch

from regard import decode
from regard.decode import Beam, Greedy
from regard.errors import RequestError
from regard.protocols import BOS, EOS, PAD
from tests.decode.toy import Fixed, Markov, everything, rescore

SOURCES = torch.tensor(
    [[4, 3, 2, 0, 0], [3, 2, 0, 0, 0], [4, 4, 4, 2, 0], [2, 0, 0, 0, 0], [3, 4, 3, 3, 2]]
)


def all_scored(model, source, longest, length, penalty):
    """Every sequence with its normalised score: those that end before those that were cut."""
    scored = []
    for tokens in everything(model.size, longest):
        total = math.fsum(rescore(model, source, list(tokens)))
        scored.append((tokens[-1] != EOS, -total / penalty(len(tokens), length), list(tokens)))
    return [(tokens, -score) for _, score, tokens in sorted(scored)]


@pytest.mark.parametrize("size", [4, 5])
@pytest.mark.parametrize("penalty", ["power", "gnmt"])
@pytest.mark.parametrize("length", [0.0, 0.6, 1.0, 2.0])
def test_a_beam_of_everything_is_exhaustive_search(size, penalty, length):
    model = Markov(size, seed=size, order=2)
    every = size**4
    beam = Beam(every, n_best=min(6, every), length_penalty=length, penalty=penalty, max_length=4)
    found = beam(model, SOURCES)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        true = all_scored(model, source, 4, length, decode.PENALTIES[penalty])[:6]
        assert [h.tokens for h in hypotheses] == [tokens for tokens, _ in true]
        assert [h.score for h in hypotheses] == pytest.approx([s for _, s in true], abs=1e-5)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("length", [0.0, 1.0])
def test_greedy_is_a_beam_of_one(seed, length):
    model = Markov(6, seed=seed)
    one = Beam(1, length_penalty=length)(model, SOURCES)
    greedy = Greedy(length_penalty=length)(model, SOURCES)
    for (a,), (b,) in zip(one, greedy, strict=True):
        assert a.tokens == b.tokens
        assert a.score == pytest.approx(b.score, abs=1e-6)
        assert torch.equal(a.trail[:, 0], b.trail[:, 0])


def test_greedy_takes_the_likeliest_token_of_every_step():
    model = Markov(6, seed=5)
    for source, (found,) in zip(SOURCES, Greedy(max_length=6)(model, SOURCES), strict=True):
        read = [BOS]
        while read[-1] != EOS and len(read) <= 6:
            logits = model(source[None], torch.tensor([read])).logits[0, -1].clone()
            logits[[PAD, BOS]] = -math.inf
            read.append(int(logits.argmax()))
        assert found.tokens == read[1:]


@pytest.mark.parametrize(
    "config", [{"name": "greedy"}, {"beam_size": 3, "n_best": 3}, {"name": "sample"}]
)
def test_scores_are_the_models_own_under_teacher_forcing(config):
    model = Markov(7, seed=11)
    decoder = decode.build(config, length_penalty=0.7, penalty="gnmt")
    for source, hypotheses in zip(SOURCES, decoder(model, SOURCES), strict=True):
        for h in hypotheses:
            true = rescore(model, source, h.tokens)
            assert h.token_scores == pytest.approx(true, abs=1e-5)
            assert h.log_prob == pytest.approx(math.fsum(true), abs=1e-5)
            assert math.fsum(h.token_scores) == pytest.approx(h.log_prob, abs=1e-9)
            assert h.score == pytest.approx(h.log_prob / ((5 + len(h.tokens)) / 6) ** 0.7)
            assert not {PAD, BOS} & set(h.tokens)
            assert EOS not in h.tokens[:-1]


def garden_path(read):
    """First token 3 at 0.6, then 0.3 and worse; or 4 at 0.4, then certainty."""
    if not read:
        return [0, 0, 0, 0.6, 0.4]
    if read[0] == 4:
        return [0, 0, 1.0, 0, 0]
    return [0, 0, 0.3, 0.4, 0.3]


def test_a_beam_of_two_finds_its_way_out_of_the_garden_path():
    model = Fixed(5, garden_path)
    source = SOURCES[:1]
    greedy = Greedy(length_penalty=0.0)(model, source)[0][0]
    two = Beam(2, length_penalty=0.0)(model, source)[0][0]
    assert greedy.tokens[0] == 3
    assert two.tokens == [4, EOS]
    assert two.log_prob == pytest.approx(math.log(0.4))
    assert greedy.log_prob < two.log_prob


@pytest.mark.parametrize("penalty", ["power", "gnmt"])
def test_a_larger_alpha_never_picks_a_shorter_winner(penalty):
    for seed in range(5):
        model = Markov(5, seed=seed, sharp=0.5)
        lengths = []
        for alpha in (0.0, 0.3, 0.6, 1.0, 1.5, 3.0):
            # a beam of everything meets the same finished hypotheses whatever alpha is
            best = Beam(81, length_penalty=alpha, penalty=penalty, max_length=4)(model, SOURCES)
            lengths.append([len(h[0].tokens) for h in best])
        for shorter, longer in itertools.pairwise(lengths):
            assert all(a <= b for a, b in zip(shorter, longer, strict=True))


@pytest.mark.parametrize("length", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_one_best_is_the_first_of_five(seed, length):
    model = Markov(9, seed=seed, sharp=2.0)
    one = Beam(5, length_penalty=length)(model, SOURCES)
    five = Beam(5, n_best=5, length_penalty=length)(model, SOURCES)
    for a, b in zip(one, five, strict=True):
        assert a[0].tokens == b[0].tokens
        assert a[0].score == b[0].score
        assert [h.score for h in b] == sorted((h.score for h in b), reverse=True)
        assert len({tuple(h.tokens) for h in b}) == len(b)


def everlasting(model, beam, source):
    """The same search that never stops before its limit."""
    limit = beam.limit(int((source != PAD).sum()))
    alive, ended = [([], 0.0)], []
    for _ in range(limit):
        grown = []
        for tokens, total in alive:
            logits = model(source[None], torch.tensor([[BOS, *tokens]])).logits[0, -1]
            scores = logits.double().log_softmax(-1).tolist()
            grown += [([*tokens, v], total + scores[v]) for v in range(EOS, model.size)]
        grown.sort(key=lambda g: -g[1])
        ended += [g for g in grown[: beam.beam_size] if g[0][-1] == EOS]
        alive = [g for g in grown if g[0][-1] != EOS][: beam.beam_size]
    ended.sort(key=lambda g: -g[1] / beam.normalizer(len(g[0])))
    return (ended + alive)[: beam.n_best]


@pytest.mark.parametrize("length", [0.0, 0.6, 1.0])
def test_stopping_early_changes_nothing(length):
    for seed in range(4):
        model = Markov(8, seed=seed, sharp=2.0)
        beam = Beam(3, n_best=2, length_penalty=length, max_ratio=1.0, max_extra=5)
        for source, found in zip(SOURCES, beam(model, SOURCES), strict=True):
            assert [h.tokens for h in found] == [t for t, _ in everlasting(model, beam, source)]


def test_it_does_stop_early():
    def mostly_over(read):
        return [0, 0, 0.9, 0.05, 0.05]

    model = Fixed(5, mostly_over)
    Beam(2, length_penalty=0.0)(model, SOURCES[:1])
    assert model.steps == 1


def test_patience_stops_after_so_many():
    model = Markov(9, seed=2)
    Beam(3, max_extra=40)(model, SOURCES)
    patient, model.steps = model.steps, 0
    found = Beam(3, max_extra=40, patience=1.0)(model, SOURCES)
    assert model.steps < patient
    five = Beam(3, n_best=3, max_extra=40, patience=1.0)(model, SOURCES)
    assert [h[0].tokens for h in found] == [h[0].tokens for h in five]


@pytest.mark.parametrize(
    "config",
    [{}, {"n_best": 4, "length_penalty": 0.0}, {"name": "greedy"}, {"name": "sample", "n_best": 3}],
)
def test_a_batch_of_many_is_many_batches_of_one_in_any_order(config):
    model, decoder = Markov(8, seed=4), decode.build(config)
    prefix = [[4, 5], [], [3], [], [6, 6, 6]]
    for starts in (None, prefix):
        many = decoder(model, SOURCES, prefix=starts)
        for row in range(5):
            short = SOURCES[row : row + 1, : int((SOURCES[row] != PAD).sum())]
            (one,) = decoder(model, short, prefix=starts and starts[row : row + 1])
            assert [h.tokens for h in one] == [h.tokens for h in many[row]]
            assert [h.score for h in one] == pytest.approx([h.score for h in many[row]])
        order = [3, 0, 4, 2, 1]
        other = decoder(model, SOURCES[order], prefix=starts and [starts[i] for i in order])
        for place, row in enumerate(order):
            assert [h.tokens for h in other[place]] == [h.tokens for h in many[row]]


def test_sizes_beyond_the_beam_are_refused():
    with pytest.raises(RequestError, match="from 1 to beam_size, which is 3, got 4"):
        Beam(3, n_best=4)
