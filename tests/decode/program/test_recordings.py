"""Which models decode by a recorded program; it gives what they give, and others say why not."""

import gc
import threading
import weakref

import pytest
import torch
from torch import nn

import regard
from regard import native, watch
from regard.attention import kernels
from regard.decode import Beam, Greedy
from regard.decode.program import recordings
from regard.decode.program.recorded_decoder import RecordedDecoder
from regard.decode.program.recordings import recorded_form, unrecorded_reason
from regard.models.luong import Luong
from tests.decode.program.zoo import CASES

pytestmark = pytest.mark.skipif(
    native.level() in ("none", "portable"), reason="there is no C with vector instructions"
)
BY_NAME = {str(case): case for case in CASES}
BEAM = Beam(beam_size=4, max_length=9)


@pytest.fixture
def luong():
    return BY_NAME["luong"].build()


def source(name="luong", batch=5):
    return BY_NAME[name].source(batch, 9)


def decoded_by(model, decoder, given, monkeypatch=None):
    """Hypotheses; with `monkeypatch`, by the model's own steps."""
    if monkeypatch is None:
        return (
            decoder(model, given.values, given.lengths)
            if not given.extras
            else decoder(model, given)
        )
    with monkeypatch.context() as patch:
        patch.setenv("REGARD_PROGRAM", "0")
        return decoded_by(model, decoder, given)


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        for a, b in zip(one, other, strict=True):
            assert a.score == pytest.approx(b.score, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "decoder"),
    [
        ("luong", BEAM),
        ("gnmt", Greedy(max_length=9)),
        ("pointer-generator", BEAM),
        ("convs2s", BEAM),
        ("abs", Beam(beam_size=3, max_length=7, no_repeat_ngram=2)),
        ("show-attend-tell", BEAM),
        ("rnnencdec", BEAM),
        ("conditional-gru", Beam(beam_size=4, max_length=9, coverage_penalty=0.2)),
    ],
)
def test_a_program_finds_the_hypotheses_of_the_model(name, decoder, monkeypatch):
    name = next(one for one in BY_NAME if one.startswith(name))
    model, given = BY_NAME[name].build(), source(name)
    found = decoded_by(model, decoder, given)
    assert unrecorded_reason(model) is None
    entry = recordings._ENTRIES[model]
    assert isinstance(entry.decoder, RecordedDecoder)
    assert_same(found, decoded_by(model, decoder, given, monkeypatch))
    assert_same(decoded_by(model, decoder, given), found)
    assert recordings._ENTRIES[model] is entry


def form(model, given=None):
    given = source() if given is None else given
    with torch.inference_mode():
        return recorded_form(model, model.encode(given))


def test_a_program_belongs_to_weights_and_structure(luong):
    first = form(luong)
    assert isinstance(first, RecordedDecoder)
    assert form(luong) is first
    with torch.no_grad():
        luong.output.weight[0, 0] += 1
    second = form(luong)
    assert second is not first
    assert isinstance(second, RecordedDecoder)
    luong.attention.read.scale = "length"
    third = form(luong)
    assert third is not second
    assert isinstance(third, RecordedDecoder)


class Mine(Luong):
    pass


class LoRA(nn.Linear):
    pass


def test_what_a_program_would_ignore_is_left_to_the_model(luong, monkeypatch):
    def reason():
        assert form(luong) is luong
        return unrecorded_reason(luong)

    handle = luong.output.register_forward_hook(lambda *given: None)
    assert reason() == "output has a forward hook"
    handle.remove()
    assert isinstance(form(luong), RecordedDecoder)
    with watch(luong):
        assert reason() == "somebody watches its attention"
    with kernels("reference"):
        assert reason() == "a kernel of attention is asked for"
    with torch.autocast("cpu", torch.bfloat16):
        assert reason() == "autocast is on"
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    assert reason() == "REGARD_PROGRAM is 0"
    monkeypatch.undo()
    output = luong.output
    luong.output = LoRA(output.in_features, output.out_features)
    assert "output is a LoRA" in reason()
    luong.output = output
    assert isinstance(form(luong), RecordedDecoder)
    with native.at_level("portable"):
        assert "no vector instructions" in reason()
    luong.double()
    assert "torch.float64 on cpu" in reason()
    luong.float().__class__ = Mine
    assert reason() == "Mine is not one of regard.models"


def test_a_model_in_training_takes_its_own_steps(luong):
    luong.train()
    expected = BEAM(luong, source())
    assert luong not in recordings._ENTRIES
    assert unrecorded_reason(luong) == "it is in training mode"
    *_, last = BEAM.steps(luong, source())
    assert luong not in recordings._ENTRIES
    assert_same(last, expected)
    assert_same(BEAM(luong.eval(), source()), expected)
    assert luong in recordings._ENTRIES


def test_reasons_say_what_c_lacks():
    moe = BY_NAME["moe"].build()
    assert form(moe, source("moe")) is moe
    assert unrecorded_reason(moe) == "C has no instruction for experts"
    with torch.no_grad():
        next(moe.parameters()).add_(1)
    assert unrecorded_reason(moe) == "C has no instruction for experts"
    assert "is no module" in unrecorded_reason(object())


def test_a_program_that_gives_other_numbers_is_not_taken(luong, monkeypatch):
    plain = RecordedDecoder.step

    def off(self, tokens, decoding):
        logits, decoding = plain(self, tokens, decoding)
        return logits + 0.01, decoding

    monkeypatch.setattr(RecordedDecoder, "step", off)
    assert form(luong) is luong
    assert unrecorded_reason(luong) == "its steps in C are off by 0.01"


def test_who_watches_in_the_middle_sees_the_steps(luong):
    steps = BEAM.steps(luong, source().values, source().lengths)
    next(steps)
    with watch(luong) as seen:
        next(steps)
    assert len(seen["attention"].steps) == 1
    *_, last = steps
    assert_same(last, BEAM(luong, source().values, source().lengths))


def test_a_program_does_not_keep_its_model():
    model = BY_NAME["luong"].build()
    assert isinstance(form(model), RecordedDecoder)
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


def test_threads_may_share_a_model(luong):
    batches = [BY_NAME["luong"].source(3, size, seed=size) for size in (5, 8, 11, 14)]
    expected = [decoded_by(luong, BEAM, one) for one in batches]
    found = [None] * len(batches)

    def work(i):
        for _ in range(3):
            found[i] = decoded_by(luong, BEAM, batches[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(found, expected, strict=True):
        assert [[h.tokens for h in s] for s in one] == [[h.tokens for h in s] for s in other]


def test_the_shipped_pronouncer_says_the_same(monkeypatch):
    words = "attention recorded program kernel sentence music winter computer".split()
    model = regard.load("pronunciation-small")
    found = model.predict(words)
    assert isinstance(recordings._ENTRIES[model.model].decoder, RecordedDecoder)
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    expected = model.predict(words)
    assert [one.output for one in found] == [one.output for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-4)
