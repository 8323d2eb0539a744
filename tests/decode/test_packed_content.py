"""What tensors hold is checked by C itself, whatever the Python in front of it let through."""

from dataclasses import replace

import pytest
import torch

from regard import native
from regard.decode.program.choosing import packed
from regard.decode.program.packed_weights import Panels
from tests.decode.program.test_choosing import a_transformer, sources

pytestmark = pytest.mark.skipif(native.library() is None, reason="no compiled library")
SPANS = "lengths, offsets or spans that are out of range"


@pytest.fixture
def unchecked(monkeypatch):
    """Packed models whose Python lets everything through."""
    monkeypatch.setattr(Panels, "_lengths", staticmethod(lambda source, lengths: lengths))


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
