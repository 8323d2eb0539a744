"""Steps that C takes in one call find what one step after the other finds, to the last bit."""

import itertools
from collections import Counter

import pytest
import torch

from regard import native, watch
from regard.decode import Beam, Greedy, Sample
from regard.decode.program import search_in_c
from regard.decode.program.recorded_decoder import RecordedDecoder
from regard.native.gate import BrokenContract
from regard.protocols import EOS
from tests.decode.program.zoo import CASES, LANGUAGE_MODELS
from tests.decode.test_stream import plain

pytestmark = pytest.mark.skipif(
    native.level() in ("none", "portable"), reason="there is no C with vector instructions"
)
READING = [case for case in CASES if case.name not in LANGUAGE_MODELS]
DECODERS = [
    Greedy(max_extra=6),
    Greedy(max_length=7, min_length=5),
    Beam(1),
    Beam(3, n_best=2, max_extra=6),
    Beam(4, n_best=3, patience=1.0, length_penalty=0.6, penalty="gnmt", min_length=4),
    Beam(2, bound="now", max_ratio=1.0),
    Beam(2, n_best=2, length_penalty=0.0, max_ratio=3.0),
    Beam(5, n_best=5, patience=2.0, max_length=12),
]
BY_PYTORCH = {"arsg(attention=content, reach=2)", "transformer(attention={'talking': True})"}
"""Steps of which PyTorch computes a part."""
LONG = 1e9
"""Seconds: a deadline that never comes, but is asked for after each step."""


def the(name):
    """The first case of this name."""
    return next(case for case in READING if name in (case.name, str(case)))


@pytest.fixture
def calls(monkeypatch):
    """How many steps each call of C took, as often as that came."""
    made, search = Counter(), RecordedDecoder.search

    def counted(*args):
        found = search(*args)
        made[0 if found is None else len(found.tokens)] += 1
        return found

    monkeypatch.setattr(RecordedDecoder, "search", counted)
    return made


def ending(model):
    """A model whose outputs end soon, some sooner."""
    for name, x in model.named_parameters():
        if name.endswith("output.bias") or name.endswith("out.bias"):
            x.data[EOS] += 1.0
    return model


@pytest.mark.parametrize("case", READING, ids=str)
def test_every_generator(case, calls):
    model = ending(case.build())
    source = case.source(4, 7, 21)
    with torch.inference_mode():
        model.start(model.encode(source))
    for decoder in DECODERS:
        before = dict(calls)
        one_by_one = decoder(model, source, deadline=LONG)
        assert calls == before
        assert plain(decoder(model, source)) == plain(one_by_one)
    assert any(steps > 1 for steps in calls) or str(case) in BY_PYTORCH


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
@pytest.mark.parametrize("name", ["transformer", "rnnsearch", "luong"])
def test_precisions(name, precision, calls):
    case = the(name)
    model, source = ending(case.build()), case.source(5, 6)
    decoder = Beam(3, n_best=3, precision=precision)
    assert plain(decoder(model, source)) == plain(decoder(model, source, deadline=LONG))
    assert any(steps > 1 for steps in calls)


def test_prefix_then_free(calls):
    case = the("transformer")
    model, source = ending(case.build()), case.source(3, 6)
    prefix = [[7, 8], [9], []]
    for decoder in (Beam(3), Greedy()):
        calls.clear()
        found = decoder(model, source, prefix=prefix)
        assert plain(found) == plain(decoder(model, source, prefix=prefix, deadline=LONG))
        assert [own[0].tokens[: len(p)] for own, p in zip(found, prefix, strict=True)] == prefix
        assert any(steps > 1 for steps in calls)


@pytest.mark.parametrize(
    "decoder",
    [
        Beam(3, diversity_rate=0.5),
        Beam(3, coverage_penalty=0.2),
        Beam(3, no_repeat_ngram=2),
        Greedy(repetition_penalty=1.5),
        Sample(n_best=2),
    ],
    ids=str,
)
def test_what_c_does_not_know_is_done_step_by_step(decoder, calls):
    case = the("transformer")
    decoder(case.build(), case.source(2, 5))
    assert not calls


def test_who_watches_sees_every_step(calls):
    case = the("transformer")
    model = case.build()
    with watch(model) as seen:
        found = Greedy(max_length=5)(model, case.source(1, 5))
    assert set(calls) <= {0}
    assert len(found[0][0].tokens) == max(len(x.steps) for x in seen.values())


def test_steps_end_where_a_table_does(calls):
    """A model with a table of 8 positions takes as many steps in C, then raises its own error."""
    case = next(
        case for case in READING if case.changes.get("position", {}).get("kind") == "learned"
    )
    model, source = case.build(max_length=8), case.source(1, 4)
    said = []
    for more in ({}, {"deadline": LONG}):
        with pytest.raises(Exception, match="position") as caught:
            Greedy(max_length=20, min_length=20)(model, source, **more)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert any(steps > 1 for steps in calls)


def test_nothing_is_a_number():
    case = the("transformer")
    model, source = case.build(), case.source(2, 5)
    Greedy()(model, source)
    model.output.weight.data[7] = float("nan")
    for decoder, more in itertools.product((Beam(3), Greedy()), ({}, {"deadline": LONG})):
        with pytest.raises(Exception, match="NaN"):
            decoder(model, source, **more)


def test_ties_and_impossible_words_end_a_search():
    """With two words to choose from, a beam of three has slots without a hypothesis."""
    case = the("transformer")
    model, source = case.build(), case.source(3, 5)
    bias = torch.full((len(model.output.weight),), -float("inf"))
    bias[[EOS, 5, 6]] = torch.tensor([-1.0, 0.0, -0.5])
    model.output.bias = torch.nn.Parameter(bias)
    for decoder in (Beam(3, n_best=3, max_length=6), Greedy(max_length=6)):
        assert plain(decoder(model, source)) == plain(decoder(model, source, deadline=LONG))


def test_a_plan_that_does_not_fit_is_refused(monkeypatch):
    case = the("rnnsearch")
    model, source = case.build(), case.source(2, 5)
    table = search_in_c.SearchInC._rooms

    def wrong(self):
        rooms = table(self)
        self._table[0].bytes += 4
        return rooms

    monkeypatch.setattr(search_in_c.SearchInC, "_rooms", wrong)
    with pytest.raises((RuntimeError, BrokenContract), match="sizes do not fit"):
        Beam(2)(model, source)


def test_a_call_takes_no_longer_than_about_a_second(monkeypatch, calls):
    case = the("transformer")
    model, source = ending(case.build()), case.source(1, 5)
    decoder = Greedy(min_length=12, max_length=12)
    whole = plain(decoder(model, source))
    assert max(calls) > 2
    calls.clear()
    monkeypatch.setattr(search_in_c, "MOST_PRODUCTS", 1)
    assert plain(decoder(model, source)) == whole
    assert set(calls) == {1}
