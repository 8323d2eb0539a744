"""Decoding step by step: the same work, with what is found so far after each step."""

import itertools
import threading

import pytest
import torch

from regard.attention.recording import active
from regard.decode import Beam, Ensemble, Greedy, Sample
from regard.decode import decoder as search
from regard.errors import RequestError
from regard.models.luong import Luong
from regard.protocols import EOS
from tests.decode.program.test_transformers import a_transformer, an_rnnsearch, sources
from tests.decode.rules.test_forbidden_words import avoiding
from tests.decode.test_decoder import DECODERS, SOURCES
from tests.decode.toy import Markov, rescore

ALL = [
    *DECODERS,
    Beam(3, n_best=3, diversity_rate=0.3, no_repeat_ngram=2),
    Beam(4, n_best=2, bound="now", repetition_penalty=1.2),
]


def plain(hypotheses):
    """What hypotheses are compared by."""
    return [
        [(h.tokens, h.score, h.log_prob, h.token_scores, h.trail.tolist()) for h in own]
        for own in hypotheses
    ]


class Clock:
    """Seconds that pass by one each time somebody asks."""

    def __init__(self):
        self.now = 0

    def monotonic(self):
        self.now += 1
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(search, "time", Clock())


@pytest.mark.parametrize("decoder", ALL)
def test_the_last_item_is_the_result_of_the_call(decoder):
    model = Markov(7, seed=3)
    asked = {"prefix": [[], [5], [], [3, 4]], "rules": [avoiding([[[6]], [], [], [[4, 3]]])]}
    for told in ({}, asked):
        items = list(decoder.steps(model, SOURCES, **told))
        assert len(items) > 3
        assert plain(items[-1]) == plain(decoder(model, SOURCES, **told))
        assert all(len(item) == len(SOURCES) for item in items)


def test_words_that_an_output_must_have_come_in_a_stream_too():
    words = [[[5]], [[6, 5]], [], [[3], [4]]]
    items = list(Beam(4, n_best=2).steps(Markov(7), SOURCES, force_words=words))
    assert plain(items[-1]) == plain(Beam(4, n_best=2)(Markov(7), SOURCES, force_words=words))


MODELS = {
    "a Transformer": a_transformer,
    "an RNNsearch in C": an_rnnsearch,
    "an LSTM": lambda: Luong(203, 203, embed=8, hidden=8, layers=1).eval(),
    "an ensemble": lambda: Ensemble([a_transformer(), an_rnnsearch()]),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize(
    "decoder",
    [Greedy(max_extra=3), Beam(3, coverage_penalty=0.2, max_extra=3), Sample(n_best=2, top_k=9)],
)
def test_models_of_the_catalogue(make, decoder):
    model, (source, lengths) = make(), sources()
    source, lengths = source[:3, :9], lengths[:3].clamp(max=9)
    source[2, 8] = EOS
    items = list(decoder.steps(model, source, lengths))
    assert plain(items[-1]) == plain(decoder(model, source, lengths))


@pytest.mark.parametrize("decoder", [Greedy(), Sample(n_best=3, seed=4)])
def test_what_is_never_revised_grows_by_a_token_a_step(decoder):
    *items, last = decoder.steps(Markov(7, seed=1), SOURCES, prefix=[[], [5], [], [3, 4]])
    for n, item in enumerate(items, 1):
        for now, end in zip(item, last, strict=True):
            cut = sorted(h.tokens[:n] for h in end)
            assert sorted(h.tokens for h in now) == cut


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_partial_hypotheses_of_a_beam_are_scored_and_ranked(penalty):
    model, beam = Markov(7, seed=2), Beam(4, n_best=4, length_penalty=penalty)
    open_ones = 0
    for n, item in enumerate(beam.steps(model, SOURCES), 1):
        for source, found in zip(SOURCES, item, strict=True):
            assert found
            for h in found:
                assert len(h.tokens) == n or h.finished or n > beam.limit(int((source > 0).sum()))
                each = rescore(model, source, h.tokens)
                assert h.token_scores == pytest.approx(each, abs=1e-5)
                assert h.score == pytest.approx(sum(each) / len(each) ** penalty, abs=1e-5)
            if any(not h.finished for h in found) and len(found[-1].tokens) == n:
                open_ones += 1
                scores = [h.score for h in found]
                assert scores == sorted(scores, reverse=True)
    assert open_ones > 4


def test_closing_it_ends_the_work_and_nothing_stays_set_between_items():
    model = a_transformer().train()
    before = [m.training for m in model.modules()]
    source, lengths = sources()
    steps = Beam(3, coverage_penalty=0.2, min_length=20).steps(model, source, lengths)
    for item in itertools.islice(steps, 3):
        assert max(len(h.tokens) for own in item for h in own) <= 3
        assert [m.training for m in model.modules()] == before
        assert not torch.is_inference_mode_enabled()
        assert not active()
    toy = Markov(7)
    steps = Greedy(min_length=30).steps(toy, SOURCES)
    assert toy.steps == 0  # nothing is done before it is asked for
    next(steps), next(steps)
    assert toy.steps == 2
    steps.close()
    assert list(steps) == []
    assert toy.steps == 2


def test_each_step_may_come_from_another_thread():
    source, lengths = sources()
    beam = Beam(3, coverage_penalty=0.2, max_extra=2, max_ratio=0.2)
    steps, found = beam.steps(a_transformer(), source, lengths), []
    while True:
        size = len(found)
        worker = threading.Thread(target=lambda: found.extend(itertools.islice(steps, 1)))
        worker.start()
        worker.join()
        if len(found) == size:
            break
    assert plain(found[-1]) == plain(beam(a_transformer(), source, lengths))


@pytest.mark.parametrize("decoder", [Greedy(min_length=9), Beam(4, n_best=4), Sample(n_best=2)])
@pytest.mark.parametrize("seconds", [0.5, 1.5, 3.5])
def test_a_deadline_gives_what_was_found_by_then(decoder, seconds, clock):
    """The clock is asked when it is set and after each step, and goes by one each time."""
    model = Markov(7, seed=1, sharp=0.1)
    steps = max(1, int(seconds) + 1)
    items = list(itertools.islice(decoder.steps(model, SOURCES), steps))
    model.steps = 0
    found = decoder(model, SOURCES, deadline=seconds)
    assert model.steps == steps
    assert plain(found) == plain(items[-1])
    assert any(not h.finished for own in found for h in own)
    streamed = list(decoder.steps(model, SOURCES, deadline=seconds))
    assert [plain(item) for item in streamed] == [plain(item) for item in items]


def test_a_deadline_that_is_not_met_changes_nothing():
    found = Beam(4)(Markov(7), SOURCES, deadline=1000.0)
    assert plain(found) == plain(Beam(4)(Markov(7), SOURCES))


def test_wrong_requests_are_said_before_the_first_step():
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(RequestError, match="deadline: expected seconds, a number above 0"):
            Greedy().steps(Markov(7), SOURCES, deadline=seconds)
    with pytest.raises(RequestError, match="prefix: sentence 0 is given id 2"):
        Greedy().steps(Markov(7), SOURCES, prefix=[[EOS], [], [], []])
    assert list(Greedy().steps(Markov(7), SOURCES[:0])) == []
