"""A search that sentences join and leave gives what each of them gets by itself."""

import random

import pytest
import torch

from regard import native, watch
from regard.decode import Beam, Ensemble, Greedy
from regard.decode.continuous_batching import RunningBeam, unsupported_reason
from regard.decode.program.recorded_decoder import RecordedDecoder
from regard.decode.program.recordings import decoder_in_c
from regard.decode.program.staggered import Staggered
from regard.decode.program.written import CACHES
from regard.errors import RequestError
from regard.models.bytenet import ByteNet
from regard.models.marian import Marian
from regard.protocols import EOS, PAD, Decoding
from tests.decode.program.test_transformers import a_following, a_transformer, an_rnnsearch, biased

pytestmark = pytest.mark.skipif(native.library() is None, reason="no compiled library")
VARIANTS = {
    "post": a_transformer,
    "learned": lambda: a_transformer(
        norm="pre", heads=2, position={"kind": "learned"}, attention={"head_dim": 16}
    ),
    "shaw": lambda: a_transformer(position={"kind": "shaw", "clip": 3}, attention={"window": 9}),
    "follow": lambda: a_following(norm="pre"),
    "marian": lambda: biased(a_transformer(Marian, first=2)),
    "program": lambda: a_transformer(dim=40),
}


def sentences(count, seed=0):
    """Sources of many lengths."""
    numbers = random.Random(seed)
    return [
        [*(numbers.randrange(4, 203) for _ in range(numbers.randrange(0, 14))), EOS]
        for _ in range(count)
    ]


def together(rows):
    wide = max(map(len, rows))
    table = torch.tensor([[*row, *[PAD] * (wide - len(row))] for row in rows])
    return table, torch.tensor([len(row) for row in rows])


def in_c(model):
    return decoder_in_c(model, *together(sentences(2)))


def alone(beam, model, rows):
    return [beam(model, *together([row]))[0] for row in rows]


def gone_through(running, rows, seed=0, most=1):
    """The hypotheses of sentences that come one, two or three at a time, whenever they like."""
    numbers, waiting = random.Random(seed), [*enumerate(rows)]
    names, found = {}, {}
    while waiting or len(running):
        if waiting and numbers.random() < 0.4:
            some = [waiting.pop(0) for _ in range(min(len(waiting), numbers.randrange(1, 4)))]
            for number, (name, _) in zip(
                running.add(*together([row for _, row in some])), some, strict=True
            ):
                names[number] = name
        for number, hypotheses in running.step(most).items():
            found[names[number]] = hypotheses
    return [found[name] for name in range(len(rows))]


@pytest.mark.parametrize(
    ("variant", "precision"),
    [
        pytest.param(one, precision, marks=() if (n + m) % 2 == 0 else pytest.mark.slow)
        for n, one in enumerate(VARIANTS)
        for m, precision in enumerate(("float32", "int8"))
    ],
)
def test_who_comes_when_changes_nothing(variant, precision):
    model, rows = VARIANTS[variant](), sentences(9)
    beam = Beam(beam_size=4, n_best=3, precision=precision, max_extra=4)
    running = RunningBeam(beam, model)
    found = gone_through(running, rows, most=1 if precision == "int8" else 3)
    for mine, expected in zip(found, alone(beam, model, rows), strict=True):
        assert [h.tokens for h in mine] == [h.tokens for h in expected]
        assert [h.score for h in mine] == [h.score for h in expected]
        assert [h.token_scores for h in mine] == [h.token_scores for h in expected]


@pytest.mark.parametrize(
    "beam",
    [
        Beam(beam_size=1),
        Beam(beam_size=3, n_best=3, diversity_rate=0.5),
        Beam(beam_size=3, patience=1.0, length_penalty=0.6, penalty="gnmt"),
        Beam(beam_size=3, bound="now", max_length=5),
        Beam(beam_size=3, min_length=6, n_best=2),
        Beam(beam_size=2, no_repeat_ngram=2, min_length=3),
        Beam(beam_size=3, repetition_penalty=1.5, n_best=2),
    ],
)
def test_other_beams(beam):
    model, rows = a_transformer(), sentences(9, seed=2)
    for most in (1, 5):
        found = gone_through(RunningBeam(beam, model), rows, seed=2, most=most)
        for mine, expected in zip(found, alone(beam, model, rows), strict=True):
            assert [(h.tokens, h.score) for h in mine] == [(h.tokens, h.score) for h in expected]


def test_sentences_that_joined_take_several_steps_in_c(monkeypatch):
    made, search = [], RecordedDecoder.search

    def counted(self, tokens, decoding, *rest):
        found = search(self, tokens, decoding, *rest)
        made.append((type(decoding), 0 if found is None else len(found.tokens)))
        return found

    monkeypatch.setattr(RecordedDecoder, "search", counted)
    running = RunningBeam(Beam(beam_size=3, min_length=6), a_transformer())
    running.add(*together(sentences(2)))
    running.step(4)
    running.add(*together(sentences(2, seed=1)))
    while len(running):
        running.step(4)
    assert made[0] == (Decoding, 4)
    assert (Staggered, 4) in made
    assert running.steps == sum(steps for _, steps in made)


def test_a_longer_sentence_joins_a_shorter_one():
    """Its limit is beyond that of the sentences with which the search began."""
    model, beam = (
        a_transformer(),
        Beam(beam_size=3, min_length=12, max_extra=20, length_penalty=0.6),
    )
    rows = [[7, EOS], [*range(5, 17), EOS]]
    running = RunningBeam(beam, model)
    numbers = running.add(*together(rows[:1]))
    found = running.step(4)
    numbers += running.add(*together(rows[1:]))
    while len(running):
        found |= running.step(4)
    for number, expected in zip(numbers, alone(beam, model, rows), strict=True):
        assert [(h.tokens, h.score) for h in found[number]] == [
            (h.tokens, h.score) for h in expected
        ]


def test_who_leaves_is_not_decoded_and_the_others_are():
    model, rows, beam = a_transformer(), sentences(6, seed=3), Beam(beam_size=2, n_best=2)
    running = RunningBeam(beam, model)
    numbers = running.add(*together(rows[:4]))
    found = running.step()
    running.drop([numbers[0], numbers[2], 1000])
    assert len(running) == 2 - len(found)
    numbers += running.add(*together(rows[4:]))
    assert len(set(numbers)) == 6
    running.drop([numbers[4]])
    while len(running):
        found |= running.step()
    assert set(found) == {numbers[1], numbers[3], numbers[5]}
    for n in (1, 3, 5):
        (expected,) = alone(beam, model, [rows[n]])
        assert [h.tokens for h in found[numbers[n]]] == [h.tokens for h in expected]
    running.drop(running.add(*together(rows[:1])))
    assert len(running) == 0
    assert running.step() == {}
    assert running.add(torch.zeros(0, 3, dtype=torch.int64)) == []


def test_what_has_left_is_let_go():
    model, rows, beam = a_transformer(), sentences(2, seed=4), Beam(beam_size=2, max_length=12)
    running = RunningBeam(beam, model)
    most = 0
    for n in range(60):
        if n % 5 == 0:
            running.add(*together(rows))
        running.step()
        search = running._search
        if search is not None:
            past, memory = search.decoding.carried[CACHES], search.decoding.memories["0"]
            sizes = len(past.blocks), len(search.history._steps), len(search.books)
            most = max(most, *sizes, len(memory.key))
    assert most <= 12 + 5


def test_it_keeps_the_weights_of_its_beginning():
    model, rows, beam = a_transformer(), sentences(1, seed=5), Beam(beam_size=2)
    running = RunningBeam(beam, model)
    (expected,) = alone(beam, model, rows)
    running.add(*together(sentences(1, seed=6)))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.5)
    (number,) = running.add(*together(rows))
    found = {}
    while number not in found:
        found |= running.step()
    assert [h.tokens for h in found[number]] == [h.tokens for h in expected]


def test_what_cannot_be_joined_says_why(monkeypatch):
    model = a_transformer()
    assert unsupported_reason(Beam(), model) is None
    for decoder, other, why in (
        (Greedy(), model, "Greedy is no beam"),
        (Beam(coverage_penalty=0.2), model, "coverage penalty"),
        (Beam(), an_rnnsearch().train(), "training mode"),
        (Beam(), Ensemble([a_transformer()]).eval(), "Ensemble is not one of regard.models"),
    ):
        assert why in str(unsupported_reason(decoder, other))
        with pytest.raises(RequestError, match=why):
            RunningBeam(decoder, other)
    with watch(model):
        assert "watches" in str(unsupported_reason(Beam(), model))
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    assert unsupported_reason(Beam(), an_rnnsearch()) == "REGARD_PROGRAM is 0"


def test_what_a_recording_shows_is_said_before_anything_is_decoded():
    running = RunningBeam(Beam(), a_transformer(attention={"talking": True}))
    for call in (running.begin, running.add):
        with pytest.raises(RequestError, match="steps C takes, and its first step"):
            call(*together(sentences(2)))
    assert not len(running)


@pytest.mark.parametrize("variant", ["rnnsearch", "ByteNet", "marian"])
def test_models_whose_encoders_are_no_programs_are_joined(variant):
    """A source that is read in a batch is summed up in another order."""
    torch.manual_seed(3)
    made = {
        "rnnsearch": an_rnnsearch,
        "ByteNet": lambda: ByteNet(203, 203, dim=8, dilations=(1, 2), sets=1),
        "marian": lambda: a_transformer(Marian, first=2, reads_end=False),
    }
    model, rows = biased(made[variant]().eval()), sentences(7, seed=4)
    beam = Beam(beam_size=3, n_best=2, max_extra=8)
    found = gone_through(RunningBeam(beam, model), rows, seed=4)
    for mine, expected in zip(found, alone(beam, model, rows), strict=True):
        assert [h.tokens for h in mine] == [h.tokens for h in expected]
        assert [h.score for h in mine] == pytest.approx([h.score for h in expected], abs=1e-5)


def test_only_sentences_that_have_not_begun_join():
    fast = in_c(model := a_transformer())
    decoding = fast.start(fast.encode(*together(sentences(2))))
    _, later = fast.step(torch.full((2, 1), 1), decoding)
    with pytest.raises(RequestError, match="before its first step"):
        fast.joined(decoding, later)
    assert model is not None


@pytest.mark.parametrize("wrong", [-1, 3])
def test_starts_that_no_step_had_are_refused(wrong):
    model = a_transformer()
    fast = in_c(model)
    decoding = fast.start(fast.encode(*together(sentences(2))))
    tokens = torch.full((2, 1), 1)
    for _ in range(2):
        _, decoding = fast.step(tokens, decoding)
    other = fast.start(fast.encode(*together(sentences(1))))
    both = fast.joined(decoding, other)
    both.starts[1] = wrong
    with pytest.raises(IndexError, match="out of range"):
        fast.step(torch.full((3, 1), 1), both)
    assert model is not None
