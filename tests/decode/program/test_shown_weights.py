"""Watchers of a program see what they see of the model, and nothing is shown that is not so."""

from dataclasses import replace

import pytest
import torch

from regard import native, watch
from regard.attention.recording import Seen, record_weights, scope, watching
from regard.decode import Beam, Ensemble
from regard.decode.program import recordings
from regard.decode.program.recordings import recorded_form
from regard.models.luong import Luong
from tests.decode.program.zoo import CASES

pytestmark = pytest.mark.skipif(
    native.level() in ("none", "portable"), reason="there is no C with vector instructions"
)
BEAM = Beam(beam_size=3, max_length=7)
SHOWN = [
    "rnnsearch",
    "luong",
    "gnmt",
    "convs2s",
    "pointer-generator",
    "temporal",
    "arsg",
    "show-attend-tell",
    "paulus",
]
BY_NAME = {str(case): case for case in CASES}


def built(name):
    return BY_NAME[name].build(), BY_NAME[name].source(3, 7, seed=8)


def seen_of(model, given, decoder=BEAM):
    with watch(model) as seen:
        found = decoder(model, given)
    return found, seen


def shows(model, precision="float32"):
    return recordings._ENTRIES[model].shows[precision]


def assert_seen(found, expected):
    assert list(found) == list(expected)
    for name, record in expected.items():
        assert found[name].scopes == record.scopes
        assert len(found[name].steps) == len(record.steps)
        for one, other in zip(found[name].steps, record.steps, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", SHOWN)
def test_watchers_see_what_they_see_of_the_model(name, monkeypatch):
    model, given = built(name)
    found, seen = seen_of(model, given)
    decoder, before = shows(model), shows(model).steps_of_model
    seen_of(model, given)
    assert decoder.steps_of_model - before <= (not decoder.begins)  # no step but the first
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    expected, own = seen_of(model, given)
    assert [h[0].tokens for h in found] == [h[0].tokens for h in expected]
    assert_seen(seen, own)


@pytest.mark.parametrize(
    ("name", "precision"), [("gnmt", "float32"), ("pointer-generator", "float32"), ("gnmt", "int8")]
)
def test_a_coverage_penalty_is_computed_of_weights_in_c(name, precision, monkeypatch):
    model, given = built(name)
    covering = replace(BEAM, coverage_penalty=0.3)
    found = replace(covering, precision=precision)(model, given)
    assert shows(model, precision) is not None
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    expected, free = covering(model, given), BEAM(model, given)
    exact = precision == "float32"
    assert not exact or [h[0].tokens for h in found] == [h[0].tokens for h in expected]
    scores, others, plain = ([h[0].score for h in one] for one in (found, expected, free))
    assert scores == pytest.approx(others, abs=1e-4 if exact else 0.2)
    assert others != plain


def test_models_of_an_ensemble_show_their_weights(monkeypatch):
    models = [BY_NAME[name].build() for name in ("luong", "gnmt")]
    ensemble, given = Ensemble(models), BY_NAME["luong"].source(3, 7, seed=8)
    _, seen = seen_of(ensemble, given)
    assert all(shows(model) is not None for model in models)
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    assert_seen(seen, seen_of(ensemble, given)[1])


class Hopping(Luong):
    """Its attention is the second hop."""

    def step(self, tokens, decoding):
        with scope("hop", 1):
            return super().step(tokens, decoding)


class Pointing(Luong):
    """It shows watchers weights of its own."""

    def step(self, tokens, decoding):
        record_weights(self.output, lambda: torch.ones(len(tokens), 1, 1))
        return super().step(tokens, decoding)


@pytest.mark.parametrize(("kind", "in_c"), [(Hopping, True), (Pointing, False)])
def test_turns_of_loops_are_kept_and_weights_that_are_no_attention_s_are_the_model_s(
    kind, in_c, monkeypatch
):
    model, given = built("luong")
    model.__class__ = kind
    _, seen = seen_of(model, given)
    assert (shows(model) is not None) is in_c
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    own = seen_of(model, given)[1]
    assert_seen(seen, own)
    assert ("output" in list(own)) is (kind is Pointing)


class Counter(Seen):
    """A watcher that wants calls, not weights alone."""

    calls = 0

    def meet(self, name, call, weights, owner):
        self.calls += 1


def test_who_wants_calls_sees_those_of_the_model():
    model, given = built("luong")
    seen = Counter(model)
    with watching(seen):
        encoded = model.encode(given.values, given.lengths)
        assert recorded_form(model, encoded) is model
        BEAM(model, given)
    assert seen.calls > 2
    with watch(model, tiles=True) as tiled:
        BEAM(model, given)
    assert len(tiled["attention"].kept) > 2
