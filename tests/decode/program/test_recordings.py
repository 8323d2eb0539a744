"""Which models decode by a recorded program; it gives what they give, and others say why not."""

import gc
import threading
import weakref
from dataclasses import replace

import pytest
import torch
from torch import nn

import regard
from regard import native, watch
from regard.attention import kernels
from regard.decode import Beam, Greedy
from regard.decode.ensemble import Ensemble
from regard.decode.program import model_state, recordings
from regard.decode.program.explained import explanation
from regard.decode.program.probes import SIZES
from regard.decode.program.recorded_decoder import RecordedDecoder
from regard.decode.program.recordings import recorded_form, unrecorded_reason
from regard.decode.program.shown_weights import say_watched
from regard.errors import RequestError
from regard.models.luong import Luong
from tests.decode.program.test_transformers import a_transformer, sources
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
        ("moe", BEAM),
        ("lstm-a", BEAM),
        ("paulus", BEAM),
        ("arsg", BEAM),
        ("bytenet", BEAM),
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
    """A subclass that asks with another query, and scales its logits."""

    def step(self, tokens, decoding):
        logits, after = super().step(tokens, decoding)
        return logits * self.gain + torch.sin(logits), after


class Counting(Luong):
    """A subclass with an effect beside what it gives."""

    def step(self, tokens, decoding):
        self.steps.append(decoding.step)
        return super().step(tokens, decoding)


class LoRA(nn.Linear):
    """A layer with a low-rank update, as adapters of other libraries put in."""

    def __init__(self, of, rank=2):
        super().__init__(of.in_features, of.out_features, bias=of.bias is not None)
        self.load_state_dict(of.state_dict())
        self.down, self.up = nn.Linear(of.in_features, rank), nn.Linear(rank, of.out_features)
        self._scale = 0.5

    def forward(self, x):
        return super().forward(x) + self._scale * self.up(torch.tanh(self.down(x)))


def test_subclasses_and_changed_layers_decode_by_their_own_programs(luong, monkeypatch):
    """Whatever a subclass or a layer put in computes, its recording computes, and no other."""
    plain = decoded_by(luong, BEAM, source(), monkeypatch)
    luong.output = LoRA(luong.output)
    luong.attention.score.project = LoRA(luong.attention.score.project)
    nn.utils.parametrizations.weight_norm(luong.combine)
    luong.__class__, luong.gain = Mine, 1.5
    found = BEAM(luong.eval(), source())
    first = recordings._ENTRIES[luong].decoder
    assert isinstance(first, RecordedDecoder)
    assert [one.node.name for one in first.lowered.hosts] == ["attend", "aten.sin.default"]
    expected = decoded_by(luong, BEAM, source(), monkeypatch)
    assert_same(found, expected)
    assert [h.score for h in expected[0]] != [h.score for h in plain[0]]
    luong.output._scale = 3.0  # a private setting of a class from elsewhere
    found = BEAM(luong, source())
    assert recordings._ENTRIES[luong].decoder is not first
    assert_same(found, decoded_by(luong, BEAM, source(), monkeypatch))


@pytest.mark.parametrize("name", ["transformer", "marian"])
def test_a_transformer_with_another_layer_is_recorded(name, monkeypatch):
    model, given = BY_NAME[name].build(), source(name)
    layer = model.decoder[0] if hasattr(model, "decoder") else model.decoder_layers[0]
    name = next(n for n, m in layer.named_modules() if type(m) is nn.Linear)
    owner = layer.get_submodule(name.rpartition(".")[0])
    setattr(owner, name.rpartition(".")[2], LoRA(layer.get_submodule(name)))
    found = decoded_by(model.eval(), BEAM, given)
    assert isinstance(recordings._ENTRIES[model].decoder, RecordedDecoder)
    assert_same(found, decoded_by(model, BEAM, given, monkeypatch))


def test_what_a_program_would_ignore_is_left_to_the_model(luong, monkeypatch):
    def reason():
        assert form(luong) is luong
        return unrecorded_reason(luong)

    handle = luong.output.register_forward_hook(lambda *given: None)
    assert reason() == "output has a forward hook"
    handle.remove()
    assert isinstance(form(luong), RecordedDecoder)
    with kernels("reference"):
        assert reason() == "a kernel of attention is asked for"
    with torch.autocast("cpu", torch.bfloat16):
        assert reason() == "autocast is on"
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    assert reason() == "REGARD_PROGRAM is 0"
    monkeypatch.undo()
    output = luong.output
    luong.output = LoRA(output)
    luong.output.more = torch.ones(1)
    assert reason() == "output.more is a tensor, but neither a parameter nor a buffer"
    luong.output = output
    assert isinstance(form(luong), RecordedDecoder)
    luong.__class__, luong.steps = Counting, []
    assert reason() == "a step changes settings of the model"
    entry = recordings._ENTRIES[luong]
    luong.steps.append(None)  # it does so for ever, and is not recorded again
    assert reason() == "a step changes settings of the model"
    assert recordings._ENTRIES[luong] is entry
    luong.__class__ = Luong
    with native.at_level("portable"):
        assert "no vector instructions" in reason()
    luong.double()
    assert "torch.float64 on cpu" in reason()
    luong.float()
    monkeypatch.setattr(model_state, "HOME", "regard.models.gnmt.")
    assert reason() == "Luong is not one of regard.models, nor a subclass"


def test_a_model_in_training_takes_its_own_steps(luong):
    luong.train()
    expected = BEAM(luong, source())
    assert luong not in recordings._ENTRIES
    assert unrecorded_reason(luong) == "it is in training mode"
    *_, last = BEAM.steps(luong, source())
    assert luong in recordings._ENTRIES  # its weights were the same
    assert_same(last, expected)
    assert_same(BEAM(luong.eval(), source()), expected)
    assert luong in recordings._ENTRIES


def test_reasons_say_what_c_lacks(monkeypatch):
    moe, experts = BY_NAME["moe"].build(), type(BY_NAME["moe"].build().decoder_experts)
    taken = form(moe, source("moe"))
    assert isinstance(taken, RecordedDecoder)
    assert not taken.lowered.hosts
    assert unrecorded_reason(moe) is None
    monkeypatch.setattr(experts, "forward", experts.forward.__wrapped__)
    moe = BY_NAME["moe"].build()
    assert form(moe, source("moe")) is moe
    assert "gives a value to Python" in unrecorded_reason(moe)
    with torch.no_grad():
        next(moe.parameters()).add_(1)
    assert "gives a value to Python" in unrecorded_reason(moe)
    assert "is no module" in unrecorded_reason(object())


def test_a_probe_costs_three_steps_of_the_model_at_most(luong, monkeypatch):
    calls, step = [], Luong.step

    def counted(self, tokens, decoding):
        calls.append(decoding.step)
        return step(self, tokens, decoding)

    monkeypatch.setattr(Luong, "step", counted)
    monkeypatch.setattr(recordings, "_difference", lambda *given: None)
    assert isinstance(form(luong), RecordedDecoder)
    assert 0 < len(calls) <= 3 * len(SIZES)
    assert {calls.count(0), calls.count(1)} == {3}  # each is recorded where something is carried


def test_explanations_say_what_takes_the_steps(luong, monkeypatch):
    assert explanation(luong).backend == "model"
    assert "nothing was decoded yet" in str(explanation(luong))
    form(luong)
    assert explanation(luong).pieces == 1
    assert "in one call of C for several steps" in str(explanation(luong))
    for given in (source("transformer"), BY_NAME["transformer"].source(1, 5)):  # none is padded
        model = BY_NAME["transformer"].build()
        form(model, given)
        assert recordings._ENTRIES[model].decoder is not None
    name = "transformer(attention={'talking': True})"  # heads that exchange scores
    talking = BY_NAME[name].build()
    form(talking, source(name))
    found = explanation(talking)
    assert (found.backend, found.pieces) == ("program", 7)
    assert str(found).endswith(
        "in 7 calls of C a step; PyTorch computes 2 append, 4 attend, 4 transpose"
    )
    assert found.by_torch[1] == ("attend", "attend with ScaledDot, TalkingHeads, Causal")
    assert found.as_dict()["said"] == str(found)
    assert (found.reasons, found.encoder) == ((), 0)
    assert found.encoder_said.endswith(
        "C has no instruction for attend with ScaledDot, TalkingHeads"
    )
    model = a_transformer()
    BEAM(model, *sources())
    assert explanation(model).encoder_said.startswith("a recorded program, ")
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    assert "REGARD_PROGRAM is 0" in str(explanation(luong))


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


def test_any_recorded_decoder_takes_a_precision(luong, monkeypatch):
    own, low = BEAM, replace(BEAM, precision="int8")
    inputs = source()
    expected, found = (one(luong, inputs.values, inputs.lengths) for one in (own, low))
    assert [len(one) for one in found] == [len(one) for one in expected]
    entry = recordings._ENTRIES[luong]
    assert entry.narrow["int8"].precision == "int8"
    made = entry.narrow["int8"]
    low(luong, inputs.values, inputs.lengths)
    assert entry.narrow["int8"] is made  # it is kept
    with torch.no_grad():
        luong.output.weight.mul_(1.5)
    low(luong, inputs.values, inputs.lengths)
    assert recordings._ENTRIES[luong].narrow["int8"] is not made
    assert low(luong.train(), inputs.values, inputs.lengths)  # as a validation does
    assert luong.training
    luong.eval()
    both = Ensemble([luong, luong])
    for one, other in zip(
        *(low(m, inputs.values, inputs.lengths) for m in (both, luong)), strict=True
    ):
        assert [h.tokens for h in one] == [h.tokens for h in other]
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    with pytest.raises(RequestError, match="int8 needs a decoder in C, and REGARD_PROGRAM is 0"):
        low(luong, inputs.values, inputs.lengths)


def test_steps_that_are_watched_in_between_are_float32_and_that_is_said(luong, caplog):
    say_watched.cache_clear()
    low, inputs = replace(BEAM, precision="int8"), source()
    steps = low.steps(luong, inputs.values, inputs.lengths)
    next(steps)
    assert not caplog.records
    with watch(luong) as seen:
        next(steps)
        assert len(seen["attention"].steps) == 1
    assert [one.message for one in caplog.records] == [
        "decode.precision: int8 shows no attention in this model; steps that are watched have "
        "float32 weights"
    ]
