"""What tensors hold is checked by C itself, whatever the Python in front of it let through."""

from dataclasses import replace

import pytest
import torch

from regard import native
from regard.decode.program import by_hand_recurrent
from regard.decode.program.by_hand_recurrent import _READ, _READ_CALL
from regard.decode.program.choosing import packed
from regard.decode.program.packed_weights import Panels
from tests.decode.program.test_choosing import a_transformer, an_rnnsearch, sources

pytestmark = pytest.mark.skipif(native.library() is None, reason="no compiled library")
SPANS = "lengths, offsets or spans that are out of range"


@pytest.fixture
def unchecked(monkeypatch):
    """Packed models whose Python lets everything through."""
    monkeypatch.setattr(by_hand_recurrent, "known", lambda ids, words, name: ids)
    monkeypatch.setattr(Panels, "_lengths", staticmethod(lambda source, lengths: lengths))


@pytest.mark.parametrize("wrong", [203, -1, -1_000_000_000])
def test_ids_that_are_not_in_the_vocabulary(unchecked, wrong):
    model, (source, lengths) = an_rnnsearch(), sources()
    fast = packed(model)
    decoding = fast.start(fast.encode(source, lengths))
    with pytest.raises(IndexError, match="an id that is out of range"):
        fast.step(torch.full((5, 1), wrong), decoding)
    source[3, 2] = wrong
    with pytest.raises(IndexError, match="an id that is out of range"):
        fast.encode(source, lengths)


def test_ids_behind_a_length_are_not_read(unchecked):
    model, (source, lengths) = an_rnnsearch(), sources()
    fast = packed(model)
    expected = fast.encode(source, lengths).states
    source[1, 1], source[4, 29] = 203, -1
    assert torch.equal(fast.encode(source, lengths).states, expected)


@pytest.mark.parametrize(
    ("row", "length", "order"),
    [
        (1, 0, [2, 3, 0, 4, 1]),
        (2, 31, [2, 3, 0, 4, 1]),
        (1, -5, [2, 3, 0, 4, 1]),
        (0, 9, [3, 2, 0, 4, 1]),
        (0, 9, [2, 3, 0, 1, 4]),
        (0, 9, [2, 3, 0, 4, 5]),
        (0, 9, [2, 3, 0, 4, -1]),
    ],
)
def test_lengths_and_their_order(row, length, order):
    model, (source, lengths) = an_rnnsearch(), sources()
    fast = packed(model)

    def read(lengths, order):
        states, final = torch.zeros(5, 30, 128), torch.empty(5, 64)
        weight = model.embed_source.weight
        _READ(fast._reader, _READ_CALL(source, lengths, order, weight, states, final), 1)
        return states

    right = read(lengths, torch.tensor([2, 3, 0, 4, 1]))
    assert torch.equal(right, fast.encode(source, lengths).states)
    lengths[row] = length
    with pytest.raises(IndexError, match=SPANS):
        read(lengths, torch.tensor(order))


@pytest.mark.parametrize("wrong", [31, -1])
def test_lengths_of_a_transformer(unchecked, wrong):
    model, (source, lengths) = a_transformer(), sources()
    fast = packed(model)
    decoding = fast.start(fast.encode(source, lengths))
    beyond = replace(decoding.memories["source"], lengths=torch.tensor([9, 1, 30, 17, wrong]))
    with pytest.raises(IndexError, match=SPANS):
        fast.step(torch.full((5, 1), 5), replace(decoding, memories={"source": beyond}))
    lengths[4] = wrong
    with pytest.raises(IndexError, match=SPANS):
        fast.encode(source, lengths)


@pytest.mark.parametrize("wrong", [5, -1])
def test_ancestors_that_no_step_had(wrong):
    model, (source, lengths) = a_transformer(), sources()
    fast = packed(model)
    tokens = torch.full((5, 1), 5)
    _, decoding = fast.step(tokens, fast.start(fast.encode(source, lengths)))
    fast.step(tokens, decoding)
    past = decoding.carried["past"]
    past.ancestors[3, 0, 0] = wrong
    with pytest.raises(IndexError, match=SPANS):
        fast.step(tokens, decoding)


@pytest.mark.parametrize(("clip", "columns"), [(8, 16), (-1, 16), (4, -16), (4, 24)])
def test_offsets_without_room_for_them_are_refused(clip, columns):
    model, (source, lengths) = a_transformer(position={"kind": "shaw", "clip": 4}), sources()
    fast = packed(model)
    encoded = fast.encode(source, lengths)
    for plan in (fast._plan, fast._encoder):
        plan.clip, plan.columns = clip, columns
    with pytest.raises(RuntimeError, match="a plan whose sizes do not fit"):
        fast.encode(source, lengths)
    with pytest.raises(RuntimeError, match="a plan whose sizes do not fit"):
        fast.step(torch.full((5, 1), 7), fast.start(encoded))


@pytest.mark.parametrize("name", ["before", "behind"])
def test_windows_of_less_than_nothing_are_refused(name):
    model, (source, lengths) = a_transformer(attention={"window": 3}), sources()
    fast = packed(model)
    setattr(fast._encoder, name, -1)
    with pytest.raises(RuntimeError, match="a plan whose sizes do not fit"):
        fast.encode(source, lengths)
