"""Encoders in C against the models' own, text by text."""

import ctypes

import pytest
import torch

from regard import native, watch
from regard.decode import Beam
from regard.decode.program import readers, recorded_encoder
from regard.decode.program.instructions import NAMES
from regard.decode.program.model_state import ModelState
from regard.decode.program.readers import read, reader_of, unread_reason
from regard.decode.program.recorder import NotRecorded
from regard.models.transformer import Transformer
from tests.decode.program.zoo import CASES, WORDS

pytestmark = pytest.mark.skipif(
    native.level() in ("none", "portable"), reason="there is no C with vector instructions"
)
BY_NAME = {str(case): case for case in CASES}
READ = [
    name
    for name in BY_NAME
    if name.startswith(("transformer", "following", "marian")) and "talking" not in name
]
ERRORS = {"float32": 2e-5, "bfloat16": 0.05, "int8": 0.3}


def texts(lengths, seed=4):
    """Ids with padding."""
    g = torch.Generator().manual_seed(seed)
    counts = torch.tensor(lengths)
    ids = torch.randint(4, WORDS, (len(lengths), max(lengths) + 1), generator=g)
    return ids.masked_fill(torch.arange(ids.shape[1]) >= counts[:, None], 0), counts


@torch.inference_mode()
def reader(model, precision="float32"):
    found = reader_of(ModelState(model), precision)
    assert found is not None, unread_reason(model)
    return found


def parts(encoded):
    """States, and keys and values of each memory, text by text."""
    begun = encoded.extra.get(recorded_encoder.STARTED)
    memories = {} if begun is None else begun.memories
    every = [encoded.states]
    for memory in (x for x in memories.values() if hasattr(x, "key")):
        every += [memory.key.transpose(1, 2), memory.value.transpose(1, 2)]
    return [[x[i, :n] for x in every] for i, n in enumerate(encoded.lengths.tolist())]


@pytest.mark.parametrize("precision", ERRORS)
@pytest.mark.parametrize("name", READ)
@torch.inference_mode()
def test_states_and_memories_are_the_models(name, precision):
    model, (ids, lengths) = BY_NAME[name].build(), texts([5, 1, 12, 3])
    found, expected = reader(model, precision).encode(model, ids, lengths), model.encode(ids)
    inside = torch.arange(ids.shape[1]) < lengths[:, None]
    limit = ERRORS[precision] * float(expected.states.abs().max())
    torch.testing.assert_close(found.states[inside], expected.states[inside], rtol=0, atol=limit)
    assert not found.states[~inside].any()
    begun, asked = found.extra[recorded_encoder.STARTED], model.start(expected)
    assert list(begun.carried) == list(asked.carried)
    assert all(torch.equal(begun.carried[key], x) for key, x in asked.carried.items())
    for key, memory in asked.memories.items():
        own = begun.memories[key]
        if key == "last":
            assert torch.equal(own, memory)
        if hasattr(memory, "key"):
            real = inside[:, None, :, None]
            for one, other in ((memory.key, own.key), (memory.value, own.value)):
                torch.testing.assert_close(one * real, other * real, rtol=0, atol=4 * limit)
            assert torch.equal(memory.mask.lengths, own.mask.lengths)


@pytest.mark.parametrize("precision", ERRORS)
@pytest.mark.parametrize("name", ["transformer", "following-transformer"])
@torch.inference_mode()
def test_a_text_has_the_same_bits_alone_and_in_any_batch(name, precision, monkeypatch):
    counts = [40, 7, 60, 1, 33, 60, 58, 21, 60, 2, 45]  # more than go through the layers together
    assert sum(counts) > recorded_encoder.TOGETHER
    model, (ids, lengths) = BY_NAME[name].build(), texts(counts)
    own = reader(model, precision)
    both = parts(own.encode(model, ids, lengths))
    for i, n in enumerate(counts):
        (alone,) = parts(own.encode(model, ids[i : i + 1, :n], lengths[i : i + 1]))
        assert all(torch.equal(*pair) for pair in zip(alone, both[i], strict=True))
    monkeypatch.setattr(recorded_encoder.native, "threads", lambda _: 2)
    for one, other in zip(parts(own.encode(model, ids, lengths)), both, strict=True):
        assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


@pytest.mark.parametrize("name", READ)
@torch.inference_mode()
def test_watchers_see_what_they_see_of_the_model(name, monkeypatch):
    model, (ids, lengths) = BY_NAME[name].build(), texts([5, 1, 12, 3])
    with watch(model) as seen:
        read(model, ids, lengths)
    assert ("float32", True) in readers._READERS[model].made
    monkeypatch.setenv("REGARD_PROGRAM", "0")
    with watch(model) as expected:
        read(model, ids, lengths)
    assert list(seen) == list(expected)
    inside = torch.arange(ids.shape[1]) < lengths[:, None]
    real = inside[:, None, :, None] & inside[:, None, None, :]
    for layer, record in expected.items():
        for one, other in zip(record.steps, seen[layer].steps, strict=True):
            torch.testing.assert_close(one * real, other, rtol=0, atol=2e-6)


@torch.inference_mode()
def test_a_text_that_is_longer_than_a_table_is_read_by_the_model():
    model = BY_NAME["transformer"].build()
    own, (ids, lengths) = reader(model), texts([300, 4])
    with pytest.raises(NotRecorded, match="a text of 300 words"):
        own.encode(model, ids, lengths)
    found, expected = read(model, ids, lengths), model.encode(ids, lengths)
    torch.testing.assert_close(found.states[0], expected.states[0])
    assert len(model.position.table) > 256  # it has grown, and is in the program now
    again = reader(model).encode(model, ids, lengths)
    torch.testing.assert_close(again.states[0, :300], expected.states[0, :300], rtol=0, atol=2e-5)


class Deciding(Transformer):
    """Its way depends on what it reads."""

    def encode(self, source, lengths=None):
        encoded = super().encode(source, lengths)
        return encoded if bool((source == 5).any()) else encoded._replace(states=-encoded.states)


class Mean(Transformer):
    """What it makes of a word depends on the whole batch."""

    def encode(self, source, lengths=None):
        encoded = super().encode(source, lengths)
        return encoded._replace(states=encoded.states - encoded.states.mean(0))


class Counting(Transformer):
    """It asks how long the texts are."""

    def encode(self, source, lengths=None):
        encoded = super().encode(source, lengths)
        return encoded if int(lengths.max()) < 30 else encoded._replace(states=-encoded.states)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Deciding, "a value decides on the way"),
        (Mean, "C has no instruction for mean"),
        (Counting, "gives a value to Python"),
    ],
)
@torch.inference_mode()
def test_what_is_no_reading_of_single_texts_is_left_to_the_model(kind, why):
    model, (ids, lengths) = BY_NAME["transformer"].build(), texts([5, 40])
    model.__class__ = kind
    found = read(model, ids, lengths)
    assert why in unread_reason(model)
    assert torch.equal(found.states, model.encode(ids, lengths).states)


@torch.inference_mode()
def test_weights_that_changed_and_hooks_count_at_once():
    model, (ids, lengths) = BY_NAME["transformer"].build(), texts([5, 2])
    first = reader(model)
    model.encoder[0].feedforward.out.weight[0] += 1.0
    assert reader(model) is not first
    torch.testing.assert_close(
        read(model, ids, lengths).states[0, :5], model.encode(ids, lengths).states[0, :5]
    )
    handle = model.encoder[0].register_forward_hook(lambda module, given, out: 2 * out)
    assert torch.equal(read(model, ids, lengths).states, model.encode(ids, lengths).states)
    assert unread_reason(model) == "encoder.0 has a forward hook"
    handle.remove()
    assert reader(model) is not None


@pytest.mark.parametrize("field", ["texts", "spans", "keys"])
@torch.inference_mode()
def test_spans_that_are_no_texts_are_refused_by_c(field, monkeypatch):
    model, (ids, lengths) = BY_NAME["transformer"].build(), texts([5, 2])
    own, step = reader(model), recorded_encoder.STEP

    def spoiled(plan, call, threads):
        if field == "spans":
            ctypes.c_int64.from_address(call.spans + 8).value = 9
        else:
            setattr(call, field, getattr(call, field) - 1)
        step(plan, call, threads)

    monkeypatch.setattr(recorded_encoder, "STEP", spoiled)
    with pytest.raises(IndexError, match="out of range"):
        own.encode(model, ids, lengths)


@pytest.mark.parametrize(
    ("field", "value"), [("heads", 5), ("columns", 4), ("before", -2), ("k", -2), ("n", 999)]
)
@torch.inference_mode()
def test_sizes_that_do_not_fit_are_refused_by_c(field, value):
    model = Transformer(
        WORDS, WORDS, dim=16, heads=2, layers=1, ffn_dim=16, position={"kind": "shaw", "clip": 2}
    ).eval()
    own, (ids, lengths) = reader(model), texts([5, 2])
    (one,) = (i for i in own._compiled.code if i.op == NAMES.index("ATTEND_WITHIN"))
    setattr(one, field, value)
    with pytest.raises(RuntimeError, match="a plan whose sizes do not fit"):
        own.encode(model, ids, lengths)


def test_a_decoder_reads_and_writes_in_c(monkeypatch):
    model, (ids, lengths) = BY_NAME["transformer"].build(), texts([5, 2, 9])
    beam = Beam(beam_size=3, max_length=6)
    monkeypatch.setattr(type(model), "encode", refused := Refusing(type(model).encode))
    first = [h[0].tokens for h in beam(model, ids, lengths)]
    recorded = refused.count
    assert [h[0].tokens for h in beam(model, ids, lengths)] == first
    assert refused.count == recorded > 0  # the second time nothing was read by the model


class Refusing:
    """Counts what a model reads."""

    def __init__(self, own):
        self.own, self.count = own, 0

    def __get__(self, model, kind):
        def encode(*given):
            self.count += 1
            return self.own(model, *given)

        return encode
