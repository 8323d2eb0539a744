"""Transformers in C against the models themselves, at every level."""

import copy
import gc
import weakref
from dataclasses import replace

import pytest
import torch

from regard import native, watch
from regard.decode import Beam, Ensemble, Greedy, Sample
from regard.decode.program import recordings
from regard.decode.program.recorded_decoder import RecordedDecoder
from regard.decode.program.recordings import decoder_in_c
from regard.decode.top import leading, log_probabilities, top
from regard.errors import RequestError
from regard.models.following_transformer import FollowingTransformer
from regard.models.marian import Marian
from regard.models.rnnsearch import RNNsearch
from regard.models.transformer import Transformer
from regard.native.fingerprint import fingerprint
from regard.protocols import EOS, PAD
from tests.pairwise import pairwise

needs_c = pytest.mark.skipif(native.library() is None, reason="no compiled library")
LEVELS = ("portable", "AVX2", "AVX-512")
ERRORS = {"float32": 2e-5, "bfloat16": 0.06, "int8": 0.3}
"""Of logits with a standard deviation near 1."""
SHORT = {"max_ratio": 0.0, "max_extra": 24}
"""Untrained models write to the limit: enough steps for windows and offsets to be passed often."""


def a_transformer(kind=Transformer, **changes):
    torch.manual_seed(0)
    sizes = {"dim": 64, "heads": 4, "layers": 2, "ffn_dim": 96} | changes
    return kind(203, 203, **sizes).eval()


def sources():
    torch.manual_seed(1)
    lengths = torch.tensor([9, 1, 30, 17, 4])
    source = torch.randint(4, 203, (5, 30))
    for row, n in enumerate(lengths):
        source[row, n - 1], source[row, n:] = EOS, PAD
    return source, lengths


def an_rnnsearch(**changes):
    torch.manual_seed(0)
    sizes = {"embed": 48, "hidden": 64, "align": 32, "maxout": 40, "scale": None} | changes
    return RNNsearch(203, 203, **sizes).eval()


def a_relative(**changes):
    return a_transformer(position={"kind": "shaw", "clip": 4}, attention={"window": 6}, **changes)


def a_following(**changes):
    model = a_transformer(FollowingTransformer, **changes)
    model.reads[::3] = 1  # which symbols stand for a word
    return model


MODELS = pytest.mark.parametrize("make", [a_transformer, a_relative, a_following])
VARIANTS = {
    "post": a_transformer,
    "pre": lambda: a_transformer(norm="pre", tied="none", position={"kind": "halves"}),
    "learned": lambda: a_transformer(
        heads=2, decoder_layers=1, position={"kind": "learned"}, attention={"head_dim": 16}
    ),
    "shaw": lambda: a_transformer(norm="pre", position={"kind": "shaw", "clip": 3}),
    "shaw-shared": lambda: a_transformer(position={"kind": "shaw", "clip": 9, "tables": "shared"}),
    "shaw-keys": lambda: a_transformer(
        heads=2, position={"kind": "shaw", "clip": 40, "relative": "keys"}
    ),
    "shaw-values": lambda: a_transformer(
        heads=1, position={"kind": "shaw", "clip": 1, "relative": "values"}
    ),
    "bias": lambda: biased(a_transformer(position={"kind": "bias", "clip": 3})),
    "bias-window": lambda: biased(
        a_transformer(norm="pre", position={"kind": "bias", "clip": 40}, attention={"window": 7})
    ),
    "window": lambda: a_transformer(attention={"window": 4}),
    "shaw-window": lambda: a_transformer(
        norm="pre", position={"kind": "shaw", "clip": 2}, attention={"window": 7}
    ),
    "follow": a_following,
    "shaw-follow": lambda: a_following(norm="pre", position={"kind": "shaw", "clip": 5}),
    "itself": lambda: a_transformer(attention={"window": 1}),
    "marian": lambda: biased(a_transformer(Marian, first=2)),
    "marian-relu": lambda: biased(a_transformer(Marian, activation="relu", reads_end=False)),
}


def biased(model):
    """Biases that are not zero."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("bias", "position.table")):
                p.normal_(std=0.2)
    return model


@needs_c
@pairwise(variant=VARIANTS, precision=ERRORS, level=LEVELS)
def test_steps_give_what_the_model_gives_at_once(variant, precision, level):
    model, (source, lengths) = VARIANTS[variant](), sources()
    ids = torch.randint(4, 203, (5, 7))
    with torch.inference_mode():
        expected = model(source, ids, lengths).logits
        with native.at_level(level):
            if (level, precision) == ("portable", "float32"):
                with pytest.raises(RequestError, match="no vector instructions here"):
                    decoder_in_c(model, source, lengths)
                return
            fast = decoder_in_c(model, source, lengths, precision)
            assert isinstance(fast, RecordedDecoder)
            assert fast is decoder_in_c(model, source, lengths, precision)  # kept
            assert (fast.reader is None) is (variant == "marian-relu")  # which masks the end
            encoded = fast.encode(source, lengths)
            decoding, found = fast.start(encoded), []
            for t in range(7):
                logits, decoding = fast.step(ids[:, t : t + 1], decoding)
                found.append(logits[:, 0])
        states = model.encode(source, lengths)
    inside = torch.arange(30) < states.lengths[:, None]
    limit = ERRORS[precision]
    torch.testing.assert_close(encoded.states[inside], states.states[inside], rtol=0, atol=limit)
    if variant != "marian-relu":
        assert not encoded.states[~inside].any()
    if states.final is not None:
        torch.testing.assert_close(encoded.final, states.final, rtol=0, atol=limit)
    assert (torch.stack(found, 1) - expected).abs().max() <= limit * expected.std()


DECODERS = [
    Greedy(),
    Beam(beam_size=4, n_best=3, **SHORT),
    Beam(beam_size=3, no_repeat_ngram=2, **SHORT),
]
DECODED = {
    (a_transformer, 1),
    (a_relative, 2),
    (a_following, 0),
    (a_transformer, 0),
    (a_transformer, 2),
}
"""Every model by one decoder, and one of them by each; the others are slow tests."""


@needs_c
@pytest.mark.parametrize(
    ("make", "decoder"),
    [
        pytest.param(make, decoder, marks=() if (make, n) in DECODED else pytest.mark.slow)
        for make in (a_transformer, a_relative, a_following)
        for n, decoder in enumerate(DECODERS)
    ],
)
def test_decoders_find_what_they_find_without_it(make, decoder, monkeypatch):
    model, (source, lengths) = make(), sources()
    fast = decoder(model, source, lengths, prefix=[[5], [], [7, 8], [], []])
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    slow = decoder(model, source, lengths, prefix=[[5], [], [7, 8], [], []])
    for one, two in zip(fast, slow, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in two]
        assert [h.score for h in one] == pytest.approx([h.score for h in two], abs=1e-4)
        assert [h.trail.tolist() for h in one] == [h.trail.tolist() for h in two]


@needs_c
@pytest.mark.parametrize(
    "beam", [Beam(beam_size=3, **SHORT), Beam(beam_size=3, coverage_penalty=0.2, **SHORT)]
)
def test_an_ensemble_is_recorded_model_by_model(beam, monkeypatch):
    source, lengths = sources()
    ensemble = Ensemble([a_transformer(), biased(a_transformer(norm="pre")), an_rnnsearch()])
    inside = decoder_in_c(ensemble, source, lengths)
    assert [type(one) for one in inside.models] == [RecordedDecoder] * 3
    fast = beam(ensemble, source, lengths)
    low = replace(beam, precision="int8")(ensemble, source, lengths)
    assert all(best for best in low)
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    for one, two in zip(fast, beam(ensemble, source, lengths), strict=True):
        assert one[0].tokens == two[0].tokens
        assert one[0].score == pytest.approx(two[0].score, abs=1e-4)


@needs_c
@MODELS
def test_lengths_that_cannot_be_are_refused(make):
    model, (source, lengths) = make(), sources()
    for wrong in (lengths + 1, lengths - 2, lengths[:3]):
        with pytest.raises(RequestError, match="lengths: expected 5 numbers from 0 to 30, got"):
            Greedy()(model, source, wrong)


@needs_c
@MODELS
@pytest.mark.parametrize("wrong", [203, -1])
def test_decoders_refuse_ids_that_are_in_no_vocabulary(make, wrong):
    source, lengths = sources()
    source[2, 1] = wrong
    with pytest.raises(RequestError, match=f"source: expected ids from 0 to 202, got {wrong}"):
        Greedy()(make(), source, lengths)


@needs_c
@MODELS
def test_low_precision_is_for_every_decoder_and_results_depend_on_no_thread(make):
    model, (source, lengths) = make(), sources()
    for decoder in [kind(precision="int8", **SHORT) for kind in (Greedy, Beam, Sample)]:
        found = []
        for threads in (1, 2):
            before = torch.get_num_threads()
            torch.set_num_threads(threads)
            torch.manual_seed(3)
            found.append([[h.tokens for h in best] for best in decoder(model, source, lengths)])
            torch.set_num_threads(before)
        assert found[0] == found[1]


@needs_c
@MODELS
def test_the_coverage_penalty_sees_what_a_model_in_c_looks_at(make, monkeypatch):
    model, (source, lengths) = make(), sources()
    short = {"beam_size": 3, "max_ratio": 0.0, "max_extra": 5}  # else all is covered
    beam = Beam(coverage_penalty=0.3, **short)
    fast = beam(model, source, lengths)
    low = Beam(coverage_penalty=0.3, precision="int8", **short)(model, source, lengths)
    assert all(best for best in low)
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    slow, free = beam(model, source, lengths), Beam(**short)(model, source, lengths)
    for one, two in zip(fast, slow, strict=True):
        assert one[0].tokens == two[0].tokens
        assert one[0].score == pytest.approx(two[0].score, abs=1e-4)
    assert [best[0].score for best in slow] != [best[0].score for best in free]


@needs_c
@MODELS
def test_changed_weights_count_at_once_and_a_model_that_is_gone_is_not_kept(make):
    model, (source, lengths) = make(), sources()
    before = Beam(**SHORT)(model, source, lengths)
    copied = copy.deepcopy(model)
    with torch.no_grad():
        model.output.weight.mul_(-1.0)
    after = Beam(**SHORT)(model, source, lengths)
    assert [h[0].tokens for h in before] != [h[0].tokens for h in after]
    assert [h[0].tokens for h in Beam(**SHORT)(copied, source, lengths)] == [
        h[0].tokens for h in before
    ]
    gone = weakref.ref(model)
    kept = decoder_in_c(model, source, lengths)
    del model
    gc.collect()
    assert gone() is None
    with pytest.raises(RequestError, match="the model of a decoder in C is gone"):
        kept.encode(source, lengths)


def fused_adam(model):
    """A step of training; it leaves `_version` as it is."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, fused=True)
    source, lengths = sources()
    model(source, source, lengths).logits.square().sum().backward()
    optimizer.step()


def one_number(model):
    """The last number of the last row, past `_version` and past whole vectors of a fingerprint."""
    model.output.weight.data[-1, -1] = 1e3


def by_numpy(model):
    numbers = model.output.weight.detach().numpy()
    numbers[7] = numbers[8]


@needs_c
@pairwise(
    make=[a_transformer, a_relative, a_following],
    precision=["float32", "int8"],
    change=[fused_adam, one_number, by_numpy],
)
def test_weights_that_are_changed_behind_the_back_count_at_once(make, change, precision):
    model, (source, lengths) = make(), sources()
    old = decoder_in_c(model, source, lengths, precision)
    decode = Greedy(precision=precision, **SHORT)
    before = decode(model, source, lengths)
    versions = [p._version for p in model.parameters()]
    change(model)
    assert [p._version for p in model.parameters()] == versions  # else this tests nothing
    assert decoder_in_c(model, source, lengths, precision) is not old
    fresh = decode(copy.deepcopy(model), source, lengths)
    after = decode(model, source, lengths)
    assert [h[0].tokens for h in after] == [h[0].tokens for h in fresh]
    assert [h[0].score for h in after] != [h[0].score for h in before]


@needs_c
def test_a_decoder_in_c_can_be_kept_and_decoded_with():
    model, (source, lengths) = a_transformer(), sources()
    kept = decoder_in_c(model, source, lengths, "int8")
    model.train()
    found = Beam(**SHORT)(kept, source, lengths)
    assert model.training
    expected = Beam(precision="int8", **SHORT)(model, source, lengths)
    assert [h[0].tokens for h in found] == [h[0].tokens for h in expected]
    with pytest.raises(RequestError, match="bfloat16 is asked of a decoder in int8"):
        Beam(precision="bfloat16")(kept, source, lengths)
    with pytest.raises(RequestError, match=r"decode\.precision: expected float32 or"):
        Beam(precision="int4")
    with pytest.raises(RequestError, match=r"whose steps C takes, and .* is torch\.float64"):
        decoder_in_c(a_transformer().double(), source, lengths)


@needs_c
def test_a_model_in_training_is_recorded_when_its_weights_rest():
    model, (source, lengths) = a_transformer().train(), sources()
    found = []
    for _ in range(3):
        found.append([h[0].tokens for h in Beam(**SHORT)(model, source, lengths)])
        with torch.no_grad():
            model.output.weight[5] += 0.0  # the same numbers
    assert found[0] == found[1] == found[2]
    assert model in recordings._ENTRIES
    fused_adam(model)
    entry = recordings._ENTRIES[model]
    Beam(**SHORT)(model, source, lengths)  # by the model: its weights have just changed
    assert recordings._ENTRIES[model] is entry
    Beam(**SHORT)(model, source, lengths)
    assert recordings._ENTRIES[model] is not entry


@needs_c
@pytest.mark.parametrize("level", LEVELS)
def test_a_fingerprint_sees_every_byte_and_is_the_same_at_every_level(level):
    generator = torch.Generator().manual_seed(0)
    sizes = (0, 1, 7, 127, 128, 129, 515)
    tensors = [torch.randn(n, generator=generator) for n in sizes]
    with native.at_level("portable"):
        first = fingerprint(tensors)
    with native.at_level(level):
        assert fingerprint(tensors) == first
        seen = {first, fingerprint(tensors[::-1])}
        for x in tensors:
            for at in {0, len(x) // 2, len(x) - 1} if len(x) else ():
                bits = x.view(torch.int32)
                bits[at] ^= 1
                seen.add(fingerprint(tensors))
                bits[at] ^= 1
        assert fingerprint(tensors) == first
    assert len(seen) == 2 + 1 + 3 * 4 + 3


@needs_c
@pytest.mark.parametrize(
    ("make", "level"),
    [
        pytest.param(make, level, marks=() if n == m else pytest.mark.slow)
        for n, make in enumerate((a_transformer, a_relative, a_following))
        for m, level in enumerate(LEVELS)
    ],
)
def test_what_a_model_in_c_looks_at_is_what_the_model_looks_at(make, level, monkeypatch):
    model, (source, lengths) = make(), sources()
    with native.at_level(level):
        plain = Beam(beam_size=3, **SHORT)(model, source, lengths)
        with watch(model) as seen:
            watched = Beam(beam_size=3, **SHORT)(model, source, lengths)
    with monkeypatch.context() as patch, watch(model) as expected:
        patch.setenv("REGARD_PROGRAM", "0")
        Beam(beam_size=3, **SHORT)(model, source, lengths)
    for a, b in zip(plain, watched, strict=True):
        assert [(h.tokens, h.score) for h in a] == [(h.tokens, h.score) for h in b]
    assert list(seen) == list(expected)
    for name, record in seen.items():
        assert (record.heads, record.shared) == (expected[name].heads, expected[name].shared)
        for found, step in zip(record.steps, expected[name].steps, strict=True):
            there = found.sum(-1) > 0  # padding does not look, unpacked it does for nothing
            assert found.shape == step.shape
            assert there.any()
            torch.testing.assert_close(found[there], step[there], rtol=1e-4, atol=1e-5)


@needs_c
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("size", [5, 203, 4000])
def test_the_best_tokens_of_rows(level, size):
    torch.manual_seed(0)
    logits = 5 * torch.randn(3, 4, size)
    logits[0, 0, 3:] = -torch.inf
    with native.at_level(level):
        values, ids = leading(logits, 2, 10, False)
    expected, _ = top(log_probabilities(logits.double(), False)[..., 2:], min(10, size - 2))
    torch.testing.assert_close(values.double(), expected, rtol=1e-5, atol=1e-5)
    found = log_probabilities(logits.double(), False).gather(-1, ids)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert ids.min() >= 2
    logits[1, 1, 4] = torch.nan
    assert leading(logits, 2, 3, False)[0][1, 1].isnan().all()
